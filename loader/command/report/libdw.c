/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See libdw.h. libdw's interface is stable: its symbols have versions, and its structures are
 * opaque but for the callbacks.
 */
#include "loader/command/report/libdw.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct Dwfl;
struct Dwfl_Module;
struct Dwfl_Line;
typedef struct hf_dwarf_die Dwarf_Die;
typedef struct hf_dwarf_line Dwarf_Line;
struct Elf;

/* Dwfl_Callbacks. */
typedef struct {
    int (*find_elf)(struct Dwfl_Module *, void **, const char *, uint64_t, char **, struct Elf **);
    int (*find_debuginfo)(struct Dwfl_Module *, void **, const char *, uint64_t, const char *,
                          const char *, unsigned int, char **);
    int (*section_address)(struct Dwfl_Module *, void **, const char *, uint64_t, const char *,
                           uint32_t, const void *, uint64_t *);
    char **debuginfo_path;
} hf_dwfl_callbacks;

static struct {
    bool tried, usable;
#define HF_LIBDW(name, result, parameters) result(*name) parameters;
#include "loader/command/report/libdw_functions.def"
} libdw;

static hf_dwfl_callbacks callbacks;

/* ISO C has no cast from an object pointer to a function pointer; POSIX has. */
static bool find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    return *(void **)function != NULL;
}

static bool load(void)
{
    if (libdw.tried)
        return libdw.usable;
    libdw.tried = true;
    void *library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL)
        return false;
    libdw.usable = true;
#define HF_LIBDW(name, result, parameters)          \
    if (!find(library, #name, (void *)&libdw.name)) \
        libdw.usable = false;
#include "loader/command/report/libdw_functions.def"
    callbacks.find_elf = libdw.dwfl_build_id_find_elf;
    callbacks.find_debuginfo = libdw.dwfl_standard_find_debuginfo;
    return libdw.usable;
}

/* A module for a file that is not here. */
static void *report_build_id(struct Dwfl *session, const char *path, const uint8_t *build,
                             size_t build_size)
{
    const char *servers = getenv("DEBUGINFOD_URLS");
    if (servers == NULL || *servers == '\0' || build_size == 0)
        return NULL;
    /* Its addresses are not known; any range will do. */
    struct Dwfl_Module *module = libdw.dwfl_report_module(session, path, 0, UINT32_MAX);
    if (module == NULL || libdw.dwfl_module_report_build_id(module, build, build_size, 0) != 0)
        return NULL;
    return module;
}

bool hf_libdw_open(struct hf_libdw_file *file, const char *path, int descriptor,
                   const uint8_t *build, size_t build_size)
{
    if (!load())
        return false;
    struct Dwfl *session = libdw.dwfl_begin(&callbacks);
    if (session == NULL)
        return false;
    libdw.dwfl_report_begin(session);
    struct Dwfl_Module *module = NULL;
    if (descriptor >= 0) {
        /* After success it is the session's. */
        const int own = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
        module = libdw.dwfl_report_elf(session, path, path, own, 0, true);
        if (module == NULL && own >= 0)
            close(own);
    } else {
        module = report_build_id(session, path, build, build_size);
    }
    libdw.dwfl_report_end(session, NULL, NULL);
    *file = (struct hf_libdw_file){.session = session, .module = module};
    if (module != NULL && libdw.dwfl_module_getelf(module, &file->bias) != NULL)
        return true;
    libdw.dwfl_end(session);
    return false;
}

void hf_libdw_close(struct hf_libdw_file *file)
{
    libdw.dwfl_end(file->session);
}

/* Looks for the compilation unit that has the address. libdw looks only into the table of addresses
 * (.debug_aranges), which clang does not write. */
static void search_units(const struct hf_libdw_file *file, uint64_t address,
                         struct hf_libdw_names *names)
{
    uint64_t bias;
    Dwarf_Die *unit = NULL;
    while ((unit = libdw.dwfl_module_nextcu(file->module, unit, &bias)) != NULL) {
        if (libdw.dwarf_haspc(unit, address + file->bias - bias) <= 0)
            continue;
        Dwarf_Line *line = libdw.dwarf_getsrc_die(unit, address + file->bias - bias);
        if (line != NULL && libdw.dwarf_lineno(line, &names->line) == 0)
            names->source = libdw.dwarf_linesrc(line, NULL, NULL);
        return;
    }
}

struct hf_libdw_names hf_libdw_look_up(const struct hf_libdw_file *file, uint64_t address)
{
    struct hf_libdw_names names = {.line = 0};
    names.symbol = libdw.dwfl_module_addrname(file->module, address + file->bias);
    struct Dwfl_Line *line = libdw.dwfl_module_getsrc(file->module, address + file->bias);
    if (line != NULL)
        names.source = libdw.dwfl_lineinfo(line, NULL, &names.line, NULL, NULL, NULL);
    else
        search_units(file, address, &names);
    if (names.source == NULL || names.line < 0)
        names.line = 0;
    return names;
}
