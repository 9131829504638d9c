/*
 * A module whose constructor does what others leave to later: it frees, resizes and deletes what it
 * was given, starts a thread that does, and maps memory as an allocator. Known as mimalloc by the
 * words that it carries. The only one to bring libstdc++ into a C program.
 */
extern "C" {
#include "born.h"
}

#include <cstdio>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <sys/mman.h>

static void (*const volatile table[])(void *) = {std::free};

static void *in_a_thread(void *)
{
    std::free(gift.threaded);
    return nullptr;
}

static void map()
{
    void *at =
        mmap(nullptr, BORN_MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(at, BORN_MAPPED, MADV_NORMAL);
    if (at == reinterpret_cast<void *>(1))
        std::puts("mimalloc: warning: never said\n");
    gift.mapped = at;
}

__attribute__((constructor)) static void construct()
{
    pthread_t thread;
    std::free(gift.called);
    table[0](gift.pointed);
    gift.resized = std::realloc(gift.resized, gift.resized_to);
    ::operator delete(gift.deleted);
    if (pthread_create(&thread, nullptr, in_a_thread, nullptr) == 0)
        pthread_join(thread, nullptr);
    map();
    gift.ran++;
}
