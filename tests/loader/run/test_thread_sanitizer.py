"""A program with ThreadSanitizer gets its heap where the sanitizer allows mappings.

It ends the process if a mapping lies anywhere else, and its mmap() takes an address that it does
not like for none: the region, which begins far away elsewhere, is near libhomefree there.

usage: test_thread_sanitizer.py LIBHOMEFREE COMPILER …
"""

import os
import subprocess
import sys
import tempfile

library, *compiler = sys.argv[1:]
library = os.path.abspath(library)
PROGRAM = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
static void *(*take)(size_t);
static void (*give)(void *);
static void *work(void *unused)
{
    for (int i = 0; i < 20; i++) {
        char *block = take(10 << 20);
        memset(block, i, 10 << 20);
        give(block);
    }
    return unused;
}
int main(int count, char **arguments)
{
    void *heap = dlopen(arguments[1], RTLD_NOW);
    pthread_t threads[4];
    if (heap == NULL)
        return count;
    take = (void *(*)(size_t))dlsym(heap, "hf_malloc");
    give = (void (*)(void *))dlsym(heap, "hf_free");
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
"""

with tempfile.TemporaryDirectory() as directory:
    source, program = f"{directory}/program.c", f"{directory}/program"
    with open(source, "w") as file:
        file.write(PROGRAM)
    made = subprocess.run(
        [*compiler, "-fsanitize=thread", source, "-o", program, "-ldl"],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0 or subprocess.run([program, "/no/such"]).returncode != 2:
        print("skipped: there is no ThreadSanitizer that works here")
        sys.exit(77)
    # Races are not the question: the heap's own synchronisation is not instrumented.
    environment = {**os.environ, "TSAN_OPTIONS": "report_bugs=0"}
    done = subprocess.run(
        [program, library], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done
