/*
 * What is freed while the process ends: in atexit handlers, in destructors of libraries, by static
 * objects of a module, while other threads go on. Nothing may be missing by then: each stage must
 * come to its end, and the exit code is the program's.
 *
 * usage: test-exit MODULE_CXX
 * The program runs itself for each way to end.
 */
#include "../shim/module_cxx.h"

extern "C" {
#include "modules/destructor.h"
}

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <homefree/homefree.h>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace
{

enum { EXIT_CODE = 3 };

/* Writes without stdio, whose buffers may be gone. */
void tell(const char *stage)
{
    const std::string line = std::string(stage) + "\n";
    (void)!write(STDOUT_FILENO, line.data(), line.size());
}

void *for_handler, *for_late_handler, *for_destructor;

void handler()
{
    std::free(for_handler);
    hf_free(std::malloc(1000));
    tell("handler");
}

void late_handler()
{
    std::free(for_late_handler);
    tell("handler before homefree");
}

__attribute__((destructor)) void finish()
{
    if (for_destructor == nullptr)
        return;
    std::free(for_destructor);
    std::free(hf_malloc(100));
    hf_free(std::malloc(100));
    tell("program's destructor");
}

struct static_object {
    ~static_object()
    {
        if (text == nullptr)
            return;
        delete text;
        tell("program's static object");
    }
    std::string *text = nullptr; /* owned by the module */
};
static_object object;

struct thread_object {
    ~thread_object()
    {
        if (block == nullptr)
            return;
        std::free(block);
        tell("thread's object");
    }
    void *block = nullptr;
};
thread_local thread_object threads;

void *churn(void *)
{
    for (;;)
        for (std::size_t size = 1; size < 100000; size = size * 2 + 1) {
            std::free(hf_malloc(size));
            hf_free(std::malloc(size));
        }
    return nullptr;
}

/* In the child, every stage holds memory of the heap, of the module and of libc. */
int child(const char *how, const char *module_path)
{
    std::atexit(late_handler);
    void *handle = dlopen(module_path, RTLD_NOW | RTLD_LOCAL);
    void *found = handle != nullptr ? dlsym(handle, "module_cxx_functions") : nullptr;
    if (found == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    const module_cxx *module = reinterpret_cast<decltype(&module_cxx_functions)>(found)();
    for_handler = hf_malloc(100);
    for_late_handler = hf_malloc(1 << 20);
    for_destructor = hf_malloc(5000);
    object.text = module->new_text(10000);
    threads.block = hf_malloc(10);
    std::atexit(handler);
    at_quick_exit(handler);
    keep_until_exit(hf_malloc(200), tell);
    module->keep_until_exit(new char[300], tell);
    pthread_t thread;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread, nullptr, churn, nullptr) != 0)
            return 2;
    if (std::strcmp(how, "exit") == 0)
        std::exit(EXIT_CODE);
    if (std::strcmp(how, "quick_exit") == 0)
        std::quick_exit(EXIT_CODE);
    if (std::strcmp(how, "dlclose") == 0 && dlclose(handle) != 0)
        return 2;
    return EXIT_CODE;
}

std::string run(const char *program, const char *how, const char *module_path)
{
    int ends[2];
    if (pipe(ends) != 0)
        return "no pipe";
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(30);
        execl(program, program, how, module_path, static_cast<char *>(nullptr));
        _exit(127);
    }
    close(ends[1]);
    std::string output;
    char buffer[256];
    for (ssize_t length; (length = read(ends[0], buffer, sizeof buffer)) > 0;)
        output.append(buffer, static_cast<std::size_t>(length));
    close(ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_CODE)
        output += "ended with status " + std::to_string(status) + "\n";
    return output;
}

} // namespace

int main(int count, char **arguments)
{
    if (count == 3)
        return child(arguments[1], arguments[2]);
    if (count != 2)
        return 2;
    const std::string at_end = "handler\n"
                               "module's static object\n"
                               "handler before homefree\n"
                               "program's static object\n"
                               "program's destructor\n"
                               "library's destructor\n";
    const struct {
        const char *how;
        std::string expected;
    } ways[] = {
        {"return", "thread's object\n" + at_end},
        {"exit", "thread's object\n" + at_end},
        {"quick_exit", "handler\n"},
        {"dlclose", "module's static object\n"
                    "thread's object\n"
                    "handler\n"
                    "handler before homefree\n"
                    "program's static object\n"
                    "program's destructor\n"
                    "library's destructor\n"},
    };
    int failed = 0;
    for (const auto &way : ways)
        for (int again = 0; again < 5; again++) {
            const std::string output = run(arguments[0], way.how, arguments[1]);
            if (output != way.expected) {
                std::printf("%s:\n%s--- and not:\n%s", way.how, output.c_str(),
                            way.expected.c_str());
                failed = 1;
                break;
            }
        }
    return failed;
}
