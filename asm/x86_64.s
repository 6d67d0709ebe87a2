# Entry of a fresh fiber, x86-64 System V.
#
# A switch arrives here as it arrives anywhere: by a jump, with the transferred word in rdx, the
# thread's MXCSR in ecx and its x87 control word in r8d, and rsp just above the address it jumped to,
# in the frame that `prepare` in src/context/x86_64.rs built:
#
#        high   +----------------------+  <- top of the stack, 16-byte aligned
#               | 0                    |
#               | 0                    |
#               | entry function       |  rsp on arrival
#        low    | volt_rt_fiber_entry  |  what the switch has popped
#               +----------------------+
#
# A fresh fiber starts with the default control words: all exceptions masked, round to nearest. The
# entry function gets the transferred word and never returns. For unwinders and debuggers the stack
# ends in this frame: its return address is undefined and its frame pointer is zero.

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
    pop     rax
    mov     edx, ecx
    xor     edx, 0x1F80
    and     edx, 0xFFC0
    xor     r8d, 0x037F
    or      edx, r8d
    jnz     3f
2:
    call    rax
    ud2
3:                                      # the sticky flags stay the thread's
    and     ecx, 0x3F
    or      ecx, 0x1F80
    mov     [rsp], ecx
    ldmxcsr [rsp]
    mov     dword ptr [rsp], 0x037F
    fldcw   [rsp]
    mov     qword ptr [rsp], 0
    jmp     2b
    .cfi_endproc
    .size   volt_rt_fiber_entry, . - volt_rt_fiber_entry
