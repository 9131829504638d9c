/* A routed syscall(2) leaves its caller's stack alone. It has seven arguments at most, and on
 * x86-64 the seventh lies where a caller that passes fewer keeps a variable: here a canary, the
 * lowest word of a frame that assembly makes. Not linked with homefree; usage: test-syscall-stack
 * HOMEFREE */
#include "library.h"
#include "suite.h"

#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *homefree_path;

#if defined(__x86_64__)

enum { CANARY = 0x5ca1ab1e };

/* Calls syscall(number, a, b, c, d, e) with a canary where a seventh argument would be. `left` gets
 * what is there afterwards. */
static long call_over_canary(long number, long a, long b, long c, long d, long e, long *left)
{
    long result;
    register long fifth __asm__("r8") = d;
    register long sixth __asm__("r9") = e;
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "sub $256, %%rsp\n\t" /* beyond the red zone */
                     "and $-16, %%rsp\n\t"
                     "movq %[canary], (%%rsp)\n\t"
                     "xor %%eax, %%eax\n\t"
                     "call syscall@PLT\n\t"
                     "mov (%%rsp), %%rdx\n\t"
                     "mov %%rbx, %%rsp"
                     : "=a"(result), "+d"(b), "+D"(number), "+S"(a), "+c"(c), "+r"(fifth),
                       "+r"(sixth)
                     : [canary] "i"(CANARY)
                     : "rbx", "r10", "r11", "memory", "cc");
    *left = b;
    return result;
}

static void check(long number, long a, long b, long c, long d, long e, long *result)
{
    long left = 0;
    *result = call_over_canary(number, a, b, c, d, e, &left);
    ck_assert_msg(left == CANARY, "system call %ld wrote %#lx over its caller's stack", number,
                  (unsigned long)left);
}

START_TEST(every_call_leaves_it)
{
    const size_t size = 1 << 16;
    long result;
    check(SYS_getpid, 0, 0, 0, 0, 0, &result);
    ck_assert_int_eq(result, getpid());
    check(SYS_brk, 0, 0, 0, 0, 0, &result);
    ck_assert_int_ne(result, 0);
    for (int round = 0; round < 2; round++) {
        char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(block, MAP_FAILED);
        check(SYS_mremap, (long)block, (long)size, (long)size * 2, MREMAP_MAYMOVE, 0, &result);
        ck_assert_int_ne(result, -1);
        check(SYS_munmap, result, (long)size * 2, 0, 0, 0, &result);
        ck_assert_int_eq(result, 0);
    }
    check(SYS_munmap, 1, 1, 0, 0, 0, &result);
    ck_assert_int_eq(result, -1);
}
END_TEST

#endif

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path);
    load(homefree_path, RTLD_NOW | RTLD_GLOBAL);
#if defined(__x86_64__)
    return RUN_SUITE(every_call_leaves_it);
#else
    return SKIPPED;
#endif
}
