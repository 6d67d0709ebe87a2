# Entry of a fresh fiber, x86-64 System V.
#
# A switch arrives here as it arrives anywhere: by a jump, with the transferred word in rdx and rsp
# at the frame that `prepare` in src/context/x86_64.rs built:
#
#        high   +----------------------+  <- top of the stack, 16-byte aligned
#               | 0                    |
#               | 0                    |
#               | entry function       |  rsp + 16
#               | volt_rt_fiber_entry  |  rsp + 8   where the switch jumped to
#        low    | x87 CW     | MXCSR   |  rsp       read by the switch
#               +----------------------+
#
# The entry function gets the transferred word and never returns. For unwinders and debuggers the
# stack ends in this frame: its return address is undefined and its frame pointer is zero.

    .text
    .p2align 4
    .hidden volt_rt_fiber_entry
    .globl  volt_rt_fiber_entry
    .type   volt_rt_fiber_entry, @function
volt_rt_fiber_entry:
    .cfi_startproc
    .cfi_undefined rip
    xor     ebp, ebp
    mov     rdi, rdx
    mov     rax, [rsp + 16]
    add     rsp, 16
    call    rax
    ud2
    .cfi_endproc
    .size   volt_rt_fiber_entry, . - volt_rt_fiber_entry
