/* The sandbox program for riscv64. The other three files say the same; see mod.rs for what it does.
   Position-independent, no data, no stack but the signal mask. Assembled by rustc and by GNU as. */
    .section .rodata.podkeeper_sandbox, "a"
    .option push
    .option norvc
    .option norelax
    .balign 16
    .globl podkeeper_sandbox_start
    .hidden podkeeper_sandbox_start
    .globl podkeeper_sandbox_end
    .hidden podkeeper_sandbox_end
podkeeper_sandbox_start:
    /* rt_sigprocmask(SIG_SETMASK, &all, NULL, 8): a blocked signal is kept for PID 1, not ignored. */
    li t0, -1
    addi sp, sp, -16
    sd t0, 0(sp)
    mv s1, sp
    li a0, 2
    mv a1, s1
    li a2, 0
    li a3, 8
    li a7, 135
    ecall
1:  /* wait4(-1, NULL, WNOHANG, NULL) until no dead child is left. */
    li a0, -1
    li a1, 0
    li a2, 1
    li a3, 0
    li a7, 260
    ecall
    bgtz a0, 1b
    /* rt_sigtimedwait(&all, NULL, NULL, 8) */
    mv a0, s1
    li a1, 0
    li a2, 0
    li a3, 8
    li a7, 137
    ecall
    li t0, 15               /* SIGTERM */
    beq a0, t0, 2f
    li t0, 2                /* SIGINT */
    beq a0, t0, 2f
    bgtz a0, 1b
    li t0, -4               /* EINTR: stopped and continued */
    beq a0, t0, 1b
    /* Any other error would come again at once: end instead of spinning. exit_group(1) */
    li a0, 1
    j 3f
2:  li a0, 0
3:  li a7, 94
    ecall
    ebreak
podkeeper_sandbox_end:
    .option pop
    .text
