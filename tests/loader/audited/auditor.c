/* An audit library (rtld-audit(7)) that wants to see each call through a PLT. The dynamic linker
 * then leaves all slots unresolved, and comes in between each time. */
#include <link.h>
#include <stdint.h>

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    (void)map, (void)lmid, (void)cookie;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    (void)index, (void)from, (void)to, (void)flags, (void)name;
    return symbol->st_value;
}

#if defined(__x86_64__)
#    define PLTENTER la_x86_64_gnu_pltenter
typedef La_x86_64_regs registers;
#else
#    define PLTENTER la_aarch64_gnu_pltenter
typedef La_aarch64_regs registers;
#endif

Elf64_Addr PLTENTER(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                    registers *values, unsigned *flags, const char *name, long *frame)
{
    (void)index, (void)from, (void)to, (void)values, (void)flags, (void)name;
    *frame = 0;
    return symbol->st_value;
}
