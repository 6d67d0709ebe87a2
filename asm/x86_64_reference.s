# The reference switch, x86-64 System V: a called function that saves what the ABI says a call
# keeps, and nothing cleverer. Tests run the suite of the inline switch (src/context/x86_64.rs) on it
# too; nothing else links it.
#
# A suspended flow (its context is the lowest address):
#
#        high   +----------------------+
#               | return address       |  rsp + 56   of the call, or volt_rt_reference_entry
#               | rbp                  |  rsp + 48
#               | rbx                  |  rsp + 40
#               | r12                  |  rsp + 32
#               | r13                  |  rsp + 24   a fresh flow: its entry function
#               | r14                  |  rsp + 16
#               | r15                  |  rsp + 8
#        low    | (free) | CW | MXCSR  |  rsp        4 bytes MXCSR, 2 bytes x87 control word
#               +----------------------+

    .text

# usize volt_rt_reference_switch(Context *from, Context to, usize transfer)
#
#   in     rdi: where the running flow's context goes; rsi: the context to continue; rdx: the word
#          to hand over
#   out    rax: the word that is handed over by whoever continues the stored flow
#   keeps  rbx, rbp, r12-r15, the control bits of MXCSR, the x87 control word: the flow's own
#   stays  the status flags of MXCSR are the thread's, and go from flow to flow
#   loses  every other register
#
# It returns by `ret` to another call than its own: the predictor of returns is wrong each time.
# Unwinders see a frame of a plain function before and after the switch of stacks, since both stacks
# have the same layout.
    .p2align 4
    .hidden volt_rt_reference_switch
    .globl  volt_rt_reference_switch
    .type   volt_rt_reference_switch, @function
volt_rt_reference_switch:
    .cfi_startproc
    push    rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    push    rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    push    r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    push    r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    push    r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    push    r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0
    sub     rsp, 8
    .cfi_adjust_cfa_offset 8
    stmxcsr [rsp]
    fnstcw  [rsp + 4]
    mov     eax, [rsp]
    mov     [rdi], rsp
    mov     rsp, rsi
    # Control bits of the flow, status flags of the thread.
    mov     ecx, [rsp]
    and     eax, 0xFFFF003F
    and     ecx, 0xFFC0
    or      eax, ecx
    mov     [rsp], eax
    ldmxcsr [rsp]
    fldcw   [rsp + 4]
    mov     rax, rdx
    add     rsp, 8
    .cfi_adjust_cfa_offset -8
    pop     r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    pop     r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    pop     r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    pop     r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    pop     rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    pop     rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    ret
    .cfi_endproc
    .size   volt_rt_reference_switch, . - volt_rt_reference_switch

# Where the first switch to a fresh flow returns to.
#
#   in     rax: the transferred word; r13: the entry function; rsp: 16-byte aligned
#   never returns; the stack ends here for unwinders and debuggers
    .p2align 4
    .hidden volt_rt_reference_entry
    .globl  volt_rt_reference_entry
    .type   volt_rt_reference_entry, @function
volt_rt_reference_entry:
    .cfi_startproc
    .cfi_undefined rip
    xor     ebp, ebp
    mov     rdi, rax
    call    r13
    ud2
    .cfi_endproc
    .size   volt_rt_reference_entry, . - volt_rt_reference_entry
