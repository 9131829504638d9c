/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See privileges.h. The kernel's side is in fs/exec.c (bprm_fill_uid) and security/commoncap.c
 * (cap_bprm_creds_from_file, get_vfs_caps_from_disk).
 */
#include "loader/command/program/privileges.h"

#include <endian.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { WORDS = 2, WORD_BITS = 32 };

static bool no_new_privileges(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
}

static uint32_t word_at(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return le32toh(word);
}

/* The capabilities of a file: a header, pairs of permitted and inheritable sets, and from revision
 * 3 on the user who is root in the namespace where they count. */
bool hf_privileges_by_attribute(const unsigned char *attribute, size_t size)
{
    if (size < sizeof(uint32_t))
        return false;
    const uint32_t header = word_at(attribute);
    size_t words = 0, expected = 0;
    switch (header & VFS_CAP_REVISION_MASK) {
    case VFS_CAP_REVISION_1:
        words = VFS_CAP_U32_1;
        expected = XATTR_CAPS_SZ_1;
        break;
    case VFS_CAP_REVISION_2:
        words = VFS_CAP_U32_2;
        expected = XATTR_CAPS_SZ_2;
        break;
    case VFS_CAP_REVISION_3:
        words = VFS_CAP_U32_3;
        expected = XATTR_CAPS_SZ_3;
        break;
    default:
        break;
    }
    if (expected == 0 || size != expected)
        return false; /* execve() fails */
    if (expected == XATTR_CAPS_SZ_3 && word_at(attribute + XATTR_CAPS_SZ_2) != 0)
        return false; /* for another user namespace than this process's */
    if ((header & VFS_CAP_FLAGS_EFFECTIVE) != 0)
        return true;

    struct __user_cap_header_struct who = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct own[WORDS] = {{0}};
    if (syscall(SYS_capget, &who, own) != 0)
        return true;
    const bool nothing_new = no_new_privileges();
    for (size_t i = 0; i < words; i++) {
        const uint32_t permitted = word_at(attribute + 4 + 8 * i);
        const uint32_t inheritable = word_at(attribute + 8 + 8 * i) & own[i].inheritable;
        for (uint32_t bit = 0; bit < WORD_BITS; bit++) {
            const uint32_t mask = UINT32_C(1) << bit;
            const bool gained =
                (inheritable & mask) != 0 ||
                ((permitted & mask) != 0 &&
                 prctl(PR_CAPBSET_READ, (unsigned long)(i * WORD_BITS + bit), 0, 0, 0) == 1);
            if (gained && (!nothing_new || (own[i].permitted & mask) != 0))
                return true;
        }
    }
    return false;
}

const char *hf_privileges_of(const char *path, const struct stat *status)
{
    if (geteuid() != getuid() || getegid() != getgid())
        return "the effective IDs of this process differ from its real ones";
    struct statvfs mount;
    if (statvfs(path, &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0)
        return NULL;
    if (!no_new_privileges()) {
        const mode_t set_group = S_ISGID | S_IXGRP; /* without the second it means locking */
        if ((status->st_mode & S_ISUID) != 0 && status->st_uid != getuid())
            return "it is set-user-ID";
        if ((status->st_mode & set_group) == set_group && status->st_gid != getgid())
            return "it is set-group-ID";
    }
    unsigned char attribute[XATTR_CAPS_SZ];
    const ssize_t size = getxattr(path, "security.capability", attribute, sizeof attribute);
    if (getuid() != 0 && size > 0 && hf_privileges_by_attribute(attribute, (size_t)size))
        return "it has file capabilities";
    return NULL;
}
