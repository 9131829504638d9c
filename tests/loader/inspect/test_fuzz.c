/*
 * Thousands of damaged copies of real files: bytes, words and whole fields changed, mostly where
 * the structures are. The same seed gives the same copies, so a failure can be repeated:
 *
 *   test-fuzz SEED ROUNDS FILE...
 */
#include "walk.h"

#include "random.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long rounds;
static char **files;
static int files_count;

/* Returns a place in a structure: the beginning of the file, or what its segments and its sections
 * (without code) point to. */
static size_t interesting_place(const struct image *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)image->data;
    switch (random_below(6)) {
    case 0:
        return random_below(sizeof *header);
    case 1: /* program headers */
        return header->e_phoff + random_below((uint64_t)header->e_phnum * sizeof(Elf64_Phdr));
    case 2: /* section headers */
        return header->e_shoff + random_below((uint64_t)header->e_shnum * sizeof(Elf64_Shdr));
    case 3: { /* the dynamic section */
        const Elf64_Phdr *segments =
            (const Elf64_Phdr *)(const void *)(image->data + header->e_phoff);
        for (size_t i = 0; i < header->e_phnum; i++)
            if (segments[i].p_type == PT_DYNAMIC)
                return segments[i].p_offset + random_below(segments[i].p_filesz);
        return 0;
    }
    case 4: { /* any section except code */
        if (header->e_shnum == 0)
            return random_below(4096);
        const Elf64_Shdr *sections =
            (const Elf64_Shdr *)(const void *)(image->data + header->e_shoff);
        const Elf64_Shdr *section = &sections[random_below(header->e_shnum)];
        if (section->sh_type == SHT_NOBITS || (section->sh_flags & SHF_EXECINSTR) != 0)
            return random_below(4096);
        return section->sh_offset + random_below(section->sh_size < 512 ? section->sh_size : 512);
    }
    default:
        return random_below(image->size);
    }
}

static void damage(struct image *copy, const struct image *original)
{
    static const uint64_t values[] = {0,      1,          0xff,       0xffff,
                                      0x7fff, 0xffffffff, UINT64_MAX, UINT64_C(1) << 63};
    for (uint64_t changes = 1 + random_below(8); changes > 0; changes--) {
        const size_t at = interesting_place(original);
        const size_t width = (size_t)1 << random_below(4);
        if (at >= copy->size || width > copy->size - at)
            continue;
        uint64_t value = random_below(2) == 0 ? random_next() : values[random_below(8)];
        if (random_below(4) == 0)
            value = random_below(copy->size); /* an offset that may be valid */
        memcpy(copy->data + at, &value, width);
    }
}

START_TEST(damaged)
{
    struct image original = image_read(files[_i]);
    unsigned long opened = 0, inspected = 0;
    for (unsigned long round = 0; round < rounds; round++) {
        const size_t size = random_below(8) == 0 ? random_below(original.size) : original.size;
        struct image copy = image_copy(&original, size);
        damage(&copy, &original);
        opened += walk(&copy) == 0;
        inspected += inspect_image(&copy, files[_i]) == 0;
        image_free(&copy);
    }
    /* If nearly all changed files were refused when opened, only that check would be tested. */
    printf("%s: %lu of %lu opened, %lu inspected\n", files[_i], opened, rounds, inspected);
    ck_assert_uint_gt(opened * 4, rounds);
    ck_assert_uint_gt(inspected * 20, rounds);
    image_free(&original);
}
END_TEST

int main(int count, char **arguments)
{
    if (count < 4)
        return EXIT_FAILURE;
    rounds = random_rounds(arguments);
    files = arguments + 3;
    files_count = count - 3;
    TCase *tcase = tcase_create("fuzz");
    tcase_set_timeout(tcase, 200);
    tcase_add_loop_test(tcase, damaged, 0, files_count);
    return RUN_CASES("fuzz", tcase);
}
