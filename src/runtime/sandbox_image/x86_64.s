/* The sandbox program for x86_64. The other three files say the same; see mod.rs for what it does.
   Position-independent, no data, no stack but the signal mask. Assembled by rustc and by GNU as. */
    .section .rodata.podkeeper_sandbox, "a"
    .balign 16
    .globl podkeeper_sandbox_start
    .hidden podkeeper_sandbox_start
    .globl podkeeper_sandbox_end
    .hidden podkeeper_sandbox_end
podkeeper_sandbox_start:
    /* rt_sigprocmask(SIG_SETMASK, &all, NULL, 8): a blocked signal is kept for PID 1, not ignored. */
    pushq $-1
    movq %rsp, %rbx
    movl $2, %edi
    movq %rbx, %rsi
    xorl %edx, %edx
    movl $8, %r10d
    movl $14, %eax
    syscall
1:  /* wait4(-1, NULL, WNOHANG, NULL) until no dead child is left. */
    movq $-1, %rdi
    xorl %esi, %esi
    movl $1, %edx
    xorl %r10d, %r10d
    movl $61, %eax
    syscall
    testq %rax, %rax
    jg 1b
    /* rt_sigtimedwait(&all, NULL, NULL, 8) */
    movq %rbx, %rdi
    xorl %esi, %esi
    xorl %edx, %edx
    movl $8, %r10d
    movl $128, %eax
    syscall
    cmpq $15, %rax          /* SIGTERM */
    je 2f
    cmpq $2, %rax           /* SIGINT */
    je 2f
    testq %rax, %rax
    jg 1b
    cmpq $-4, %rax          /* EINTR: stopped and continued */
    je 1b
    /* Any other error would come again at once: end instead of spinning. exit_group(1) */
    movl $1, %edi
    jmp 3f
2:  xorl %edi, %edi
3:  movl $231, %eax
    syscall
    ud2
podkeeper_sandbox_end:
    .text
