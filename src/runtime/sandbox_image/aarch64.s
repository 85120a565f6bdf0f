/* The sandbox program for aarch64. The other three files say the same; see mod.rs for what it does.
   Position-independent, no data, no stack but the signal mask. Assembled by rustc and by GNU as. */
    .section .rodata.podkeeper_sandbox, "a"
    .balign 16
    .globl podkeeper_sandbox_start
    .hidden podkeeper_sandbox_start
    .globl podkeeper_sandbox_end
    .hidden podkeeper_sandbox_end
podkeeper_sandbox_start:
    /* rt_sigprocmask(SIG_SETMASK, &all, NULL, 8): a blocked signal is kept for PID 1, not ignored. */
    mov x9, #-1
    str x9, [sp, #-16]!
    mov x19, sp
    mov x0, #2
    mov x1, x19
    mov x2, #0
    mov x3, #8
    mov x8, #135
    svc #0
1:  /* wait4(-1, NULL, WNOHANG, NULL) until no dead child is left. */
    mov x0, #-1
    mov x1, #0
    mov x2, #1
    mov x3, #0
    mov x8, #260
    svc #0
    cmp x0, #0
    b.gt 1b
    /* rt_sigtimedwait(&all, NULL, NULL, 8) */
    mov x0, x19
    mov x1, #0
    mov x2, #0
    mov x3, #8
    mov x8, #137
    svc #0
    cmp x0, #15             /* SIGTERM */
    b.eq 2f
    cmp x0, #2              /* SIGINT */
    b.eq 2f
    cmp x0, #0
    b.gt 1b
    cmn x0, #4              /* EINTR: stopped and continued */
    b.eq 1b
    /* Any other error would come again at once: end instead of spinning. exit_group(1) */
    mov x0, #1
    b 3f
2:  mov x0, #0
3:  mov x8, #94
    svc #0
    brk #1
podkeeper_sandbox_end:
    .text
