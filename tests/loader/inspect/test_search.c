/*
 * Searching for several texts at once finds what looking for each of them would find, wherever they
 * begin and end, and reads nothing outside the bytes.
 */
#include "loader/elf/byte_search.h"
#include "suite.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The first four have pairs of bytes in common, and so have the last two, at their end. */
static const char *const texts[] = {
    "<xmalloc>: ",       "mimalloc: warning: ", "TBBmalloc: SPECIFIED",
    "xx mallocs",        "\0\0\1\2\3\4\5\6\7",  "aaaaaaaa",
    "central free list", "aaaaaaaab",           "1234m5678c",
    "abcdmefghc"};
enum { TEXTS = sizeof texts / sizeof texts[0], ALL = (1 << TEXTS) - 1 };

static size_t length_of(size_t text)
{
    return text == 4 ? 9 : strlen(texts[text]);
}

static void prepare(struct hf_search *search)
{
    size_t lengths[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        lengths[i] = length_of(i);
    ck_assert_int_eq(hf_search_prepare(search, texts, lengths, TEXTS), 0);
}

static void check(const struct hf_search *search, const char *bytes, size_t size, uint32_t wanted)
{
    uint32_t naive = 0;
    for (size_t i = 0; i < TEXTS; i++)
        if ((wanted >> i & 1) != 0 && memmem(bytes, size, texts[i], length_of(i)) != NULL)
            naive |= UINT32_C(1) << i;
    ck_assert_uint_eq(hf_search_in(search, bytes, size, wanted), naive);
}

/* Bytes that end where nothing can be read. */
static char *before_a_hole(size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page, page, PROT_NONE), 0);
    return pages + page - size;
}

START_TEST(every_text_in_every_place)
{
    struct hf_search search;
    enum { MOST = 80 };
    char *end = before_a_hole(0);
    prepare(&search);
    for (size_t size = 0; size <= MOST; size++)
        for (size_t text = 0; text < TEXTS; text++)
            for (size_t at = 0; at < size; at++) {
                char *bytes = end - size;
                const size_t length = length_of(text), rest = size - at;
                memset(bytes, 'm', size);
                memcpy(bytes + at, texts[text], length < rest ? length : rest);
                check(&search, bytes, size, ALL);
                check(&search, bytes, size, ALL & ~(UINT32_C(1) << text));
                check(&search, bytes, size, UINT32_C(1) << text);
            }
}
END_TEST

/* A number below `end`; the same ones in each run. */
static size_t draw(size_t end)
{
    static uint64_t state = 17;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(state >> 33) % end;
}

START_TEST(many_half_texts)
{
    struct hf_search search;
    enum { SIZE = 4000 };
    char *bytes = before_a_hole(SIZE);
    prepare(&search);
    for (int turn = 0; turn < 2000; turn++) {
        for (size_t at = 0; at < SIZE;) {
            const size_t text = draw(TEXTS);
            size_t part = draw(length_of(text) + (draw(64) == 0)) + 1;
            part = part < length_of(text) ? part : length_of(text);
            part = part < SIZE - at ? part : SIZE - at;
            memcpy(bytes + at, texts[text], part);
            at += part;
        }
        check(&search, bytes, SIZE, (uint32_t)draw(ALL + 1));
    }
}
END_TEST

START_TEST(what_cannot_be_searched_for)
{
    struct hf_search search;
    const char *many[HF_SEARCH_MAX + 1];
    size_t lengths[HF_SEARCH_MAX + 1];
    for (size_t i = 0; i <= HF_SEARCH_MAX; i++) {
        many[i] = "malloc is here";
        lengths[i] = 8;
    }
    ck_assert_int_eq(hf_search_prepare(&search, many, lengths, HF_SEARCH_MAX + 1), -E2BIG);
    ck_assert_int_eq(hf_search_prepare(&search, many, lengths, HF_SEARCH_MAX), 0);
    ck_assert_uint_eq(hf_search_in(&search, "a malloc is not", 15, UINT32_MAX),
                      (UINT32_C(1) << HF_SEARCH_MAX) - 1);
    lengths[3] = 7;
    ck_assert_int_eq(hf_search_prepare(&search, many, lengths, 4), -EINVAL);
    ck_assert_int_eq(hf_search_prepare(&search, NULL, NULL, 0), 0);
    ck_assert_uint_eq(hf_search_in(&search, "malloc is here", 14, UINT32_MAX), 0);
}
END_TEST

int main(void)
{
    return RUN_SUITE(every_text_in_every_place, many_half_texts, what_cannot_be_searched_for);
}
