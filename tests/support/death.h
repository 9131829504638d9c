/*
 * Functions and programs that run in a child process, and what became of them.
 *
 * A test that expects a death must see the signal, the text on stderr, and that the text is one
 * line. Works with CK_FORK=no (under valgrind) too: nothing in a child may call Check, whose
 * failures would then go on in the wrong process. Children and threads use must().
 */
#ifndef HOMEFREE_TESTS_SUPPORT_DEATH_H
#define HOMEFREE_TESTS_SUPPORT_DEATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a child ended. */
struct outcome {
    int status;       /* as waitpid(2) stores it */
    char text[16384]; /* its output on stderr, with a NUL at the end */
};

/* Runs function(context) in a child of fork(2), which exits 0 when it returns. A child that hangs
 * is killed by SIGALRM after OUTCOME_SECONDS. */
void outcome_of_function(struct outcome *out, void (*function)(void *context), void *context);
#define OUTCOME_SECONDS 60

/* Seconds for alarm(2), multiplied like Check's own limits by CK_TIMEOUT_MULTIPLIER, which is set
 * where programs run in an emulator, in valgrind or with sanitizers. */
unsigned patience(unsigned seconds);

/* A program to be started, with a clean HOMEFREE_CONF. */
struct program {
    const char *const *arguments;   /* [0] is the path; ends with NULL */
    const char *const *environment; /* each "NAME=value"; ends with NULL; may be NULL */
    rlim_t address_space;           /* RLIMIT_AS in bytes; 0: unchanged */
    int (*prepare)(void); /* called in the child before exec; if it fails, the child exits with 126.
                             May be NULL */
};
void outcome_of_program(struct outcome *out, const struct program *program);

/* The same for a function, and for this very program with other arguments and one more setting in
 * its environment ("NAME=value"; NULL for none). The result is in static storage, until the next of
 * these calls:
 *
 *     assert_killed(outcome_of_call(free_twice, block), SIGABRT, "double free"); */
const struct outcome *outcome_of_call(void (*function)(void *context), void *context);
const struct outcome *outcome_of_self(const char *setting, const char *const *arguments);
#define OUTCOME_OF_SELF(setting, ...) \
    outcome_of_self((setting), (const char *const[]){own_path(), __VA_ARGS__, NULL})

/* A test that makes one such call. */
#define CALL_TEST(name, function, context)                       \
    START_TEST(name)                                             \
    {                                                            \
        assert_succeeds(outcome_of_call((function), (context))); \
    }                                                            \
    END_TEST

/* A test that runs the program itself once; the arguments follow the setting. */
#define SELF_TEST(name, setting, ...)                             \
    START_TEST(name)                                              \
    {                                                             \
        assert_succeeds(OUTCOME_OF_SELF((setting), __VA_ARGS__)); \
    }                                                             \
    END_TEST

/* The path of the running program, for outcome_of_program(). */
const char *own_path(void);

/* Fails the test unless the child was killed by `signal` and wrote exactly one line, which contains
 * every text. */
#define assert_killed(outcome, signal, ...)                          \
    outcome_assert(__FILE__, __LINE__, (outcome), true, (signal), 1, \
                   (const char *const[]){__VA_ARGS__, NULL})

/* The same for a child that exited by itself and wrote `lines` lines. */
#define assert_exited(outcome, code, lines, ...)                          \
    outcome_assert(__FILE__, __LINE__, (outcome), false, (code), (lines), \
                   (const char *const[]){__VA_ARGS__, NULL})

/* The same for a child that exited with 0 and wrote nothing. */
#define assert_succeeds(outcome) assert_exited((outcome), 0, 0, "")

void outcome_assert(const char *file, int line, const struct outcome *outcome, bool killed,
                    int value, size_t lines, const char *const texts[]);

/* For children and threads: ends the process with one line and SIGABRT. */
#define must(condition) ((condition) ? (void)0 : must_failed(__FILE__, __LINE__, #condition))
void must_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif

#endif
