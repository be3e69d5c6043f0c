/* The part of the runtime that Rust cannot say: an initial-exec thread-local, variadic functions, a stack switch. */

#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* bf_abi::Tls. */
struct bf_tls {
    uint64_t cursor, limit, reserved[5], slots, path, tail_path, tail_callee, allocation;
};
__thread struct bf_tls bf_tls __attribute__((tls_model("initial-exec"), visibility("default")));

__attribute__((visibility("hidden"))) struct bf_tls *bf_rt_tls(void) { return &bf_tls; }

/* Calls f(argument) on the stack that ends at `top`, and comes back to this one. */
__attribute__((visibility("hidden"))) void bf_rt_on_stack(void (*f)(void *), void *argument, void *top);
#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden bf_rt_on_stack\n"
        ".globl bf_rt_on_stack\n"
        ".type bf_rt_on_stack, @function\n"
        "bf_rt_on_stack:\n"
        "  .cfi_startproc\n"
        "  endbr64\n"
        "  push %rbp\n"
        "  .cfi_def_cfa_offset 16\n"
        "  .cfi_offset %rbp, -16\n"
        "  mov %rsp, %rbp\n"
        "  .cfi_def_cfa_register %rbp\n"
        "  mov %rdx, %rsp\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  call *%rax\n"
        "  mov %rbp, %rsp\n"
        "  pop %rbp\n"
        "  .cfi_def_cfa %rsp, 8\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size bf_rt_on_stack, .-bf_rt_on_stack\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".hidden bf_rt_on_stack\n"
        ".globl bf_rt_on_stack\n"
        ".type bf_rt_on_stack, %function\n"
        "bf_rt_on_stack:\n"
        "  .cfi_startproc\n"
        "  stp x29, x30, [sp, #-16]!\n"
        "  .cfi_def_cfa_offset 16\n"
        "  .cfi_offset 29, -16\n"
        "  .cfi_offset 30, -8\n"
        "  mov x29, sp\n"
        "  .cfi_def_cfa_register 29\n"
        "  mov sp, x2\n"
        "  mov x9, x0\n"
        "  mov x0, x1\n"
        "  blr x9\n"
        "  mov sp, x29\n"
        "  ldp x29, x30, [sp], #16\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size bf_rt_on_stack, .-bf_rt_on_stack\n");
#else
#error "the runtime knows x86-64 and AArch64"
#endif

/* int bf_rt_guarded(void (*f)(void *), void *argument, uint64_t *frame): calls f(argument); 0. Keeps in *frame where it
   is, for bf_rt_escape(uint64_t frame), which comes back from it with 1 (memory.rs). */
#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden bf_rt_guarded\n"
        ".globl bf_rt_guarded\n"
        ".type bf_rt_guarded, @function\n"
        "bf_rt_guarded:\n"
        "  endbr64\n"
        "  push %rbp\n"
        "  push %rbx\n"
        "  push %r12\n"
        "  push %r13\n"
        "  push %r14\n"
        "  push %r15\n"
        "  sub $8, %rsp\n"
        "  mov %rsp, (%rdx)\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  call *%rax\n"
        "  xor %eax, %eax\n"
        "1:\n"
        "  add $8, %rsp\n"
        "  pop %r15\n"
        "  pop %r14\n"
        "  pop %r13\n"
        "  pop %r12\n"
        "  pop %rbx\n"
        "  pop %rbp\n"
        "  ret\n"
        ".size bf_rt_guarded, .-bf_rt_guarded\n"
        ".hidden bf_rt_escape\n"
        ".globl bf_rt_escape\n"
        ".type bf_rt_escape, @function\n"
        "bf_rt_escape:\n"
        "  endbr64\n"
        "  mov %rdi, %rsp\n"
        "  mov $1, %eax\n"
        "  jmp 1b\n"
        ".size bf_rt_escape, .-bf_rt_escape\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".hidden bf_rt_guarded\n"
        ".globl bf_rt_guarded\n"
        ".type bf_rt_guarded, %function\n"
        "bf_rt_guarded:\n"
        "  stp x29, x30, [sp, #-160]!\n"
        "  mov x29, sp\n"
        "  stp x19, x20, [sp, #16]\n"
        "  stp x21, x22, [sp, #32]\n"
        "  stp x23, x24, [sp, #48]\n"
        "  stp x25, x26, [sp, #64]\n"
        "  stp x27, x28, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x2]\n"
        "  mov x9, x0\n"
        "  mov x0, x1\n"
        "  blr x9\n"
        "  mov w0, #0\n"
        "1:\n"
        "  ldp x19, x20, [sp, #16]\n"
        "  ldp x21, x22, [sp, #32]\n"
        "  ldp x23, x24, [sp, #48]\n"
        "  ldp x25, x26, [sp, #64]\n"
        "  ldp x27, x28, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  ldp x29, x30, [sp], #160\n"
        "  ret\n"
        ".size bf_rt_guarded, .-bf_rt_guarded\n"
        ".hidden bf_rt_escape\n"
        ".globl bf_rt_escape\n"
        ".type bf_rt_escape, %function\n"
        "bf_rt_escape:\n"
        "  mov sp, x0\n"
        "  mov w0, #1\n"
        "  b 1b\n"
        ".size bf_rt_escape, .-bf_rt_escape\n");
#endif

/* long bf_rt_clone(unsigned long flags, void *stack, void *thread_pointer, int (*f)(void *), void *argument): a thread
   that ends with the status f(argument), on the stack that ends at `stack`; its number, or minus the error (bare.rs). */
#if defined(__x86_64__)
__asm__(".text\n"
        ".hidden bf_rt_clone\n"
        ".globl bf_rt_clone\n"
        ".type bf_rt_clone, @function\n"
        "bf_rt_clone:\n"
        "  endbr64\n"
        "  and $-16, %rsi\n"
        "  sub $16, %rsi\n"
        "  mov %rcx, 0(%rsi)\n"
        "  mov %r8, 8(%rsi)\n"
        "  mov %rdx, %r8\n"
        "  xor %edx, %edx\n"
        "  xor %r10d, %r10d\n"
        "  mov $56, %eax\n"
        "  syscall\n"
        "  test %rax, %rax\n"
        "  jz 1f\n"
        "  ret\n"
        "1:\n"
        "  xor %ebp, %ebp\n"
        "  pop %rax\n"
        "  pop %rdi\n"
        "  call *%rax\n"
        "  mov %eax, %edi\n"
        "  mov $60, %eax\n"
        "  syscall\n"
        "  hlt\n"
        ".size bf_rt_clone, .-bf_rt_clone\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".hidden bf_rt_clone\n"
        ".globl bf_rt_clone\n"
        ".type bf_rt_clone, %function\n"
        "bf_rt_clone:\n"
        "  and x1, x1, #-16\n"
        "  stp x3, x4, [x1, #-16]!\n"
        "  mov x3, x2\n"
        "  mov x2, xzr\n"
        "  mov x4, xzr\n"
        "  mov x8, #220\n"
        "  svc #0\n"
        "  cbz x0, 1f\n"
        "  ret\n"
        "1:\n"
        "  mov x29, xzr\n"
        "  ldp x9, x0, [sp], #16\n"
        "  blr x9\n"
        "  mov x8, #93\n"
        "  svc #0\n"
        ".size bf_rt_clone, .-bf_rt_clone\n");
#endif

/* execl and friends: gather the arguments as glibc does, then the forms with a vector (exec.rs). */
int bf_rt_execve(const char *path, char *const argv[], char *const envp[]);
int bf_rt_execvpe(const char *file, char *const argv[], char *const envp[]);
extern char **environ;

static size_t count(const char *first, va_list list)
{
    va_list copy;
    size_t n = 0;
    va_copy(copy, list);
    for (const char *a = first; a; a = va_arg(copy, const char *))
        n++;
    va_end(copy);
    return n;
}

static void gather(char **argv, const char *first, va_list *list)
{
    for (const char *a = first; a; a = va_arg(*list, const char *))
        *argv++ = (char *)a;
    *argv = NULL;
}

__attribute__((visibility("hidden"))) int bf_rt_execl(const char *path, const char *arg, ...)
{
    va_list list;
    va_start(list, arg);
    char **argv = alloca((count(arg, list) + 1) * sizeof *argv);
    gather(argv, arg, &list);
    va_end(list);
    return bf_rt_execve(path, argv, environ);
}

__attribute__((visibility("hidden"))) int bf_rt_execlp(const char *file, const char *arg, ...)
{
    va_list list;
    va_start(list, arg);
    char **argv = alloca((count(arg, list) + 1) * sizeof *argv);
    gather(argv, arg, &list);
    va_end(list);
    return bf_rt_execvpe(file, argv, environ);
}

__attribute__((visibility("hidden"))) int bf_rt_execle(const char *path, const char *arg, ...)
{
    va_list list;
    va_start(list, arg);
    char **argv = alloca((count(arg, list) + 1) * sizeof *argv);
    gather(argv, arg, &list);
    char *const *envp = va_arg(list, char *const *);
    va_end(list);
    return bf_rt_execve(path, argv, envp);
}
