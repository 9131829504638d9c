/* How often glibc is asked what it keeps free (alloc/owner/libc_spare.c), with a glibc and a clock
 * of the test's: as the number of free blocks says, and not as long as asking took, which on a busy
 * machine is mostly waiting. */
#include "alloc/base/dynlink.h"
#include "alloc/heap/front_end.h"
#include "alloc/heap/region.h"
#include "suite.h"

#include <malloc.h>
#include <stdint.h>
#include <time.h>

#define STEP        ((size_t)32 << 20) /* of the region, after which glibc may be asked */
#define MILLISECOND ((uint64_t)1000000)
#define SECOND      (1000 * MILLISECOND)

/* glibc's struct mallinfo2, which older headers lack. */
struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static struct {
    uint64_t clock, asking_takes;
    size_t region;
    struct info info;
    int asked, trimmed;
} world;

static struct info ask(void)
{
    world.clock += world.asking_takes;
    world.asked++;
    return world.info;
}

/* What the unit uses of others. */
int clock_gettime(clockid_t clock, struct timespec *out)
{
    (void)clock;
    *out = (struct timespec){(time_t)(world.clock / SECOND), (long)(world.clock % SECOND)};
    return 0;
}
int malloc_trim(size_t unused)
{
    (void)unused;
    world.trimmed++;
    return 1;
}
size_t hf_region_used(void)
{
    return world.region;
}
const struct link_map *hf_dynlink_find_fast(const void *address)
{
    return address;
}
bool hf_dynlink_open(const struct link_map *map, struct hf_object *out)
{
    (void)map, (void)out;
    return true;
}
void *hf_object_address(const struct hf_object *object, const char *name)
{
    (void)object, (void)name;
    return (void *)ask;
}

/* The region grows after some time; whether glibc was asked. */
static bool asked_after(uint64_t time)
{
    const int before = world.asked;
    world.clock += time;
    world.region += STEP;
    hf_libc_spare_grown();
    return world.asked != before;
}

static void begin(void)
{
    world.clock += 1000 * SECOND;
    world.asking_takes = 0;
    world.info = (struct info){.ordblks = 100};
    ck_assert(asked_after(0));
}

START_TEST(few_blocks)
{
    begin();
    ck_assert(!asked_after(100 * MILLISECOND));
    ck_assert(asked_after(100 * MILLISECOND));
}
END_TEST

START_TEST(many_blocks)
{
    begin();
    world.info.ordblks = 200000;
    ck_assert(asked_after(SECOND));
    ck_assert(!asked_after(60 * SECOND));
    ck_assert(asked_after(60 * SECOND));
}
END_TEST

START_TEST(what_waited_does_not_put_off_the_next)
{
    begin();
    world.asking_takes = 50 * MILLISECOND;
    ck_assert(asked_after(SECOND));
    world.info.fordblks = 4 * STEP;
    ck_assert(asked_after(SECOND));
    ck_assert_int_eq(world.trimmed, 1);
}
END_TEST

int main(void)
{
    return RUN_SUITE(few_blocks, many_blocks, what_waited_does_not_put_off_the_next);
}
