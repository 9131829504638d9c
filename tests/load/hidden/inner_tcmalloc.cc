/*
 * A C++ module with gperftools' tcmalloc inside, which it calls by the names of its own interface,
 * too. See inner.h.
 */
#include "inner_cxx.h"

#include <gperftools/malloc_extension.h>
#include <gperftools/malloc_extension_c.h>
#include <gperftools/tcmalloc.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

void *give_extended(size_t size, bool zeroed, size_t alignment)
{
    if (alignment > 16)
        return memset(tc_memalign(alignment, size), 0, size);
    return zeroed ? tc_calloc(1, size) : tc_newarray_nothrow(size, std::nothrow);
}

/* mmap() and its kind are tcmalloc's before 2.16. */
bool map_memory()
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void *pages = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return false;
    strcpy(static_cast<char *>(pages), "text");
    pages = mremap(pages, page, 3 * page, MREMAP_MAYMOVE);
    if (pages == MAP_FAILED || strcmp(static_cast<char *>(pages), "text") != 0)
        return false;
    return munmap(pages, 3 * page) == 0 && sbrk(0) != reinterpret_cast<void *>(-1);
}

int tune()
{
    size_t value = 0;
    MallocExtension *extension = MallocExtension::instance();
    extension->ReleaseFreeMemory();
    MallocExtension_ReleaseToSystem(1 << 20);
    if (extension->GetNumericProperty("generic.current_allocated_bytes", &value) ||
        extension->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes", 1 << 20))
        return 1;
    void *block = tc_malloc(100);
    if (extension->GetOwnership(block) != MallocExtension::kOwned ||
        extension->GetOwnership(&value) != MallocExtension::kNotOwned ||
        extension->GetAllocatedSize(block) < 100 || tc_malloc_size(block) < 100 ||
        MallocExtension_GetOwnership(block) != MallocExtension_kOwned ||
        MallocExtension_GetAllocatedSize(block) < 100 || !MallocExtension_VerifyAllMemory() ||
        extension->GetMemoryReleaseRate() != -1 || !extension->VerifyAllMemory())
        return 2;
    tc_free_sized(block, 100);
    if (tc_mallinfo().uordblks != 0 || mallopt(M_MMAP_THRESHOLD, 1 << 20) != 1)
        return 3;
    volatile size_t huge = static_cast<size_t>(1) << 62;
    if (tc_new_nothrow(huge, std::nothrow) != nullptr || tc_malloc(huge) != nullptr)
        return 6;
    if (tc_set_new_mode(1) != 0 || tc_version(nullptr, nullptr, nullptr)[0] == '\0')
        return 4;
    return map_memory() ? 0 : 5;
}

const struct inner functions = {
    free_strdup,   malloc, calloc,      aligned_alloc, realloc,     malloc_usable_size, tc_free,
    give_extended, tune,   grow_string, throws,        give_object, take_object,
};

} // namespace

extern "C" const struct inner *inner()
{
    return &functions;
}
