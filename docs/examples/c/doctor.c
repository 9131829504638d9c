/* SPDX-License-Identifier: BSD-2-Clause */
/* Examples of <homefree/doctor.h>, as alloc/manual/pages.py takes them. */
#include <homefree/homefree.h>

#include <fcntl.h>
#include <unistd.h>

/* A record of this process, which `homefree doctor --read FILE` shows. */
static int record(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return 1;
    int error = hf_doctor_record(file);
    close(file);
    return error;
}

int main(void)
{
    return record("doctor-example.record") == 0 ? unlink("doctor-example.record") : 1;
}
