/*
 * blocks.h - blocks that travel between modules as numbers: allocated and filled by one, checked
 * and freed by another, in the calling thread or in threads of its own.
 *
 * The partner says before the include which functions give and take a plain block:
 * CROSSINGS_ALLOCATE and CROSSINGS_RELEASE; without, they are malloc and free.
 */
#ifndef CROSSINGS_BLOCKS_H
#define CROSSINGS_BLOCKS_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#ifndef CROSSINGS_ALLOCATE
#    define CROSSINGS_ALLOCATE malloc
#    define CROSSINGS_RELEASE  free
#endif

namespace crossings::blocks
{

inline unsigned char *at(std::uintptr_t address)
{
    return reinterpret_cast<unsigned char *>(address);
}

inline std::uintptr_t fill(unsigned char *block, std::size_t size, unsigned seed)
{
    for (std::size_t i = 0; i < size; i++)
        block[i] = static_cast<unsigned char>(seed + i * 7);
    return reinterpret_cast<std::uintptr_t>(block);
}

inline bool intact(std::uintptr_t address, std::size_t size, unsigned seed)
{
    for (std::size_t i = 0; i < size; i++)
        if (at(address)[i] != static_cast<unsigned char>(seed + i * 7))
            return false;
    return true;
}

/* Plain blocks; 0 when there is no memory. */
inline std::uintptr_t allocate(std::size_t size, unsigned seed)
{
    auto *block = static_cast<unsigned char *>(CROSSINGS_ALLOCATE(size));
    return block == nullptr ? 0 : fill(block, size, seed);
}

inline void release(std::uintptr_t address)
{
    CROSSINGS_RELEASE(at(address));
}

/* Blocks of new[] and delete[]. */
inline std::uintptr_t allocate_array(std::size_t size, unsigned seed)
{
    return fill(new unsigned char[size], size, seed);
}

inline void release_array(std::uintptr_t address)
{
    delete[] at(address);
}

/* Plain blocks, freed by four threads at a time. */
inline void release_in_threads(const std::vector<std::uintptr_t> &addresses)
{
    constexpr std::size_t count = 4;
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < count; first++)
        threads.emplace_back([&addresses, first] {
            for (std::size_t i = first; i < addresses.size(); i += count)
                release(addresses[i]);
        });
    for (std::thread &thread : threads)
        thread.join();
}

} // namespace crossings::blocks

#endif
