/*
 * A sandbox that is there before homefree may refuse what routing needs: to open relocated data,
 * or to write through /proc/self/mem. What cannot be written is reported with the system's errno,
 * stays as it was and goes on working; only a heap that cannot start at all ends the process.
 *
 * usage: test-refused LIBHOMEFREE USER (whose slots lie under RELRO)
 */
#include "../modules/user.h"
#include "death.h"
#include "process.h"
#include "suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <homefree/adopt.h>
#include <homefree/alloc.h>
#include <homefree/owner.h>
#include <homefree/route.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *homefree_path, *user_path;

static void enter(const struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, (struct sock_filter *)(uintptr_t)code};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

#define LOAD(field)             BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, steps)    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, steps)
#define UNLESS_SET(bits, steps) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), 0, steps)
#define REFUSE                  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* Makes every mprotect(2) fail that makes pages writable: anywhere, or at one address. */
static void refuse_opening(void)
{
    const struct sock_filter code[] = {
        LOAD(nr), UNLESS(SYS_mprotect, 3), LOAD(args[2]), UNLESS_SET(PROT_WRITE, 1), REFUSE, ALLOW};
    enter(code, sizeof code / sizeof code[0]);
}

static void refuse_opening_at(uintptr_t address)
{
    const struct sock_filter code[] = {LOAD(nr),
                                       UNLESS(SYS_mprotect, 5),
                                       LOAD(args[2]),
                                       UNLESS_SET(PROT_WRITE, 3),
                                       LOAD(args[0]), /* the lower half of the address is enough */
                                       UNLESS(address, 1),
                                       REFUSE,
                                       ALLOW};
    enter(code, sizeof code / sizeof code[0]);
}

static void refuse_pwrite(void)
{
    const struct sock_filter code[] = {LOAD(nr), UNLESS(SYS_pwrite64, 1), REFUSE, ALLOW};
    enter(code, sizeof code / sizeof code[0]);
}

/* Whoever may not write to files cannot open /proc/self/mem either. */
static void refuse_files_for_writing(void)
{
    const struct sock_filter code[] = {
        LOAD(nr), UNLESS(SYS_openat, 3), LOAD(args[2]), UNLESS_SET(O_RDWR, 1), REFUSE, ALLOW};
    enter(code, sizeof code / sizeof code[0]);
}

/* Hides /proc. Ends the test if that is not allowed here. */
static void go_without_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        exit(0);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/proc", "tmpfs", 0, NULL) != 0)
        exit(0);
    ck_assert_int_ne(access("/proc/self", F_OK), 0);
}

static int find_relro(struct dl_phdr_info *info, size_t size, void *context)
{
    uintptr_t *found = context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum && strcmp(info->dlpi_name, user_path) == 0; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_RELRO)
            *found =
                (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & -(uintptr_t)sysconf(_SC_PAGESIZE);
    return 0;
}

static uintptr_t relro_of_user(void)
{
    uintptr_t found = 0;
    dl_iterate_phdr(find_relro, &found);
    ck_assert_uint_ne(found, 0);
    return found;
}

static int count_object(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info, (void)size;
    ++*(unsigned *)context;
    return 0;
}

static unsigned objects_loaded(void)
{
    unsigned count = 0;
    dl_iterate_phdr(count_object, &count);
    return count;
}

/* With fewer objects, /proc/self/mem is not opened. */
enum { MANY = 16 };

static void become_many(void)
{
    char name[64];
    for (int i = 0; i < MANY; i++) {
        const int copy = memfd_create("copy", MFD_CLOEXEC), file = open(user_path, O_RDONLY);
        struct stat status;
        ck_assert_int_eq(fstat(file, &status), 0);
        ck_assert_int_eq(sendfile(copy, file, NULL, (size_t)status.st_size), status.st_size);
        snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
        load(name, RTLD_NOW);
        close(file);
    }
}

struct seen {
    unsigned changed, refused;
    int error; /* the error of a refused slot */
    char reason[256];
};

static void look(const struct hf_route_entry *entry, void *context)
{
    struct seen *seen = context;
    if (strcmp(entry->object, user_path) != 0)
        return;
    seen->changed += entry->state == HF_ROUTE_CHANGED;
    if (entry->state == HF_ROUTE_REFUSED && entry->error != 0) {
        seen->refused++;
        seen->error = entry->error;
        strncpy(seen->reason, entry->reason, sizeof seen->reason - 1);
    }
}

static struct seen report(void *homefree)
{
    struct seen seen = {.changed = 0};
    __typeof__(&hf_route_report) tell =
        (__typeof__(&hf_route_report))symbol_of(homefree, "hf_route_report");
    ck_assert_int_eq(tell(NULL, look, &seen), 0);
    return seen;
}

static void load_homefree(void *unused)
{
    (void)unused;
    refuse_opening();
    (void)dlopen(homefree_path, RTLD_NOW);
}

START_TEST(the_heap_cannot_start)
{
    assert_killed(outcome_of_call(load_homefree, NULL), SIGABRT,
                  "homefree: fatal: ", "no memory to start the heap", "raise the limits on memory");
}
END_TEST

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

/* With a second thread, slots are not written through /proc/self/mem. */
static void become_threaded(void)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
}

START_TEST(an_object_stays_unrouted)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    become_many();
    become_threaded();
    refuse_opening_at(relro_of_user());
    struct seen seen = report(load(homefree_path, RTLD_NOW));
    ck_assert_uint_gt(seen.refused, 0);
    ck_assert_int_eq(seen.error, -EACCES);
    ck_assert_ptr_nonnull(strstr(seen.reason, "cannot be made writable"));
    user->release(user->acquire(100));
    user->release(user->resize(malloc(100), 200));
    assert_relro_is_read_only();
}
END_TEST

/* Loads homefree, which routes all of the module's slots. */
static void assert_all_is_routed(const struct user *user)
{
    void *homefree = load(homefree_path, RTLD_NOW);
    struct seen seen = report(homefree);
    ck_assert_uint_eq(seen.refused, 0);
    ck_assert_uint_gt(seen.changed, 0);
    __typeof__(&hf_malloc) allocate = (__typeof__(&hf_malloc))symbol_of(homefree, "hf_malloc");
    user->release(allocate(100));
    user->constant->release(allocate(100));
}

/* Opening /proc/self/mem would take longer than the few objects' mprotect calls. */
START_TEST(few_objects_are_opened_one_by_one)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    ck_assert_uint_lt(objects_loaded(), MANY - 1);
    refuse_opening_at(relro_of_user());
    struct seen seen = report(load(homefree_path, RTLD_NOW));
    ck_assert_uint_gt(seen.refused, 0);
    ck_assert_int_eq(seen.error, -EACCES);
    user->release(user->acquire(100));
}
END_TEST

START_TEST(many_objects_are_written_without_opening_them)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    become_many();
    refuse_opening_at(relro_of_user());
    assert_all_is_routed(user);
    assert_relro_is_read_only();
}
END_TEST

START_TEST(slots_are_written_without_pwrite)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    become_many();
    refuse_pwrite();
    assert_all_is_routed(user);
    assert_relro_is_read_only();
}
END_TEST

START_TEST(slots_are_written_if_memory_cannot_be_opened)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    become_many();
    refuse_files_for_writing();
    assert_all_is_routed(user);
    assert_relro_is_read_only();
}
END_TEST

START_TEST(slots_are_written_without_proc)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    const uintptr_t relro = relro_of_user();
    become_many();
    go_without_proc();
    assert_all_is_routed(user);
    /* The system tells what is read-only: it writes nothing there. */
    const int zeros = open("/dev/zero", O_RDONLY);
    ck_assert_int_ge(zeros, 0);
    ck_assert_int_eq(read(zeros, (void *)relro, 1), -1);
    ck_assert_int_eq(errno, EFAULT);
}
END_TEST

static void *end_at_once(void *unused)
{
    return unused;
}

/* Nothing has to be opened in a process whose other threads are gone. */
START_TEST(threads_that_have_ended_do_not_matter)
{
    const struct user *user = load_user(user_path, RTLD_NOW);
    pthread_t thread;
    become_many();
    ck_assert_int_eq(pthread_create(&thread, NULL, end_at_once, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    refuse_opening_at(relro_of_user());
    assert_all_is_routed(user);
    assert_relro_is_read_only();
}
END_TEST

START_TEST(a_module_is_not_adopted)
{
    void *homefree = load(homefree_path, RTLD_NOW);
    __typeof__(&hf_adopt) adopt = (__typeof__(&hf_adopt))symbol_of(homefree, "hf_adopt");
    __typeof__(&hf_owns) owns = (__typeof__(&hf_owns))symbol_of(homefree, "hf_owns");
    const struct user *user = load_user(user_path, RTLD_NOW);
    refuse_opening_at(relro_of_user());
    ck_assert_int_eq(adopt(load(user_path, RTLD_NOW)), -EPERM);
    ck_assert_ptr_nonnull(strstr(report(homefree).reason, "cannot be made writable"));
    void *block = user->acquire(100);
    ck_assert(!owns(block));
    user->release(block);
    assert_relro_is_read_only();
}
END_TEST

int main(int count, char **arguments)
{
    TAKE_ARGUMENTS(&homefree_path, &user_path);
    guard_against_hanging(100);
    return RUN_TESTS("refused", the_heap_cannot_start, an_object_stays_unrouted,
                     few_objects_are_opened_one_by_one,
                     many_objects_are_written_without_opening_them,
                     slots_are_written_without_pwrite, slots_are_written_if_memory_cannot_be_opened,
                     slots_are_written_without_proc, threads_that_have_ended_do_not_matter,
                     a_module_is_not_adopted);
}
