/* The sandbox program for 32-bit arm (armv7, EABI). The other three files say the same; see mod.rs for
   what it does.
   Position-independent, no data, no stack but the signal mask. Assembled by rustc and by GNU as. */
    .section .rodata.podkeeper_sandbox, "a"
    .arm
    .balign 16
    .globl podkeeper_sandbox_start
    .hidden podkeeper_sandbox_start
    .globl podkeeper_sandbox_end
    .hidden podkeeper_sandbox_end
podkeeper_sandbox_start:
    /* rt_sigprocmask(SIG_SETMASK, &all, NULL, 8): a blocked signal is kept for PID 1, not ignored. */
    mvn r0, #0
    mvn r1, #0
    sub sp, sp, #8
    str r0, [sp]
    str r1, [sp, #4]
    mov r4, sp
    mov r0, #2
    mov r1, r4
    mov r2, #0
    mov r3, #8
    mov r7, #175
    svc #0
1:  /* wait4(-1, NULL, WNOHANG, NULL) until no dead child is left. */
    mvn r0, #0
    mov r1, #0
    mov r2, #1
    mov r3, #0
    mov r7, #114
    svc #0
    cmp r0, #0
    bgt 1b
    /* rt_sigtimedwait(&all, NULL, NULL, 8): without a time, so the 32-bit one will do. */
    mov r0, r4
    mov r1, #0
    mov r2, #0
    mov r3, #8
    mov r7, #177
    svc #0
    cmp r0, #15             /* SIGTERM */
    beq 2f
    cmp r0, #2              /* SIGINT */
    beq 2f
    cmp r0, #0
    bgt 1b
    cmn r0, #4              /* EINTR: stopped and continued */
    beq 1b
    /* Any other error would come again at once: end instead of spinning. exit_group(1) */
    mov r0, #1
    b 3f
2:  mov r0, #0
3:  mov r7, #248
    svc #0
    udf #0
podkeeper_sandbox_end:
    .text
