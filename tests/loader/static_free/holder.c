/* A module with static data that others free. */
struct held {
    unsigned long before[2];
    char bytes[48];
};
static struct held holder __attribute__((used)) = {{0, 0}, "held"};
extern char held_by_module[48] __attribute__((visibility("default")));
__asm__(".globl held_by_module\n"
        ".type held_by_module, @object\n"
        ".size held_by_module, 48\n"
        ".set held_by_module, holder + 16\n");
