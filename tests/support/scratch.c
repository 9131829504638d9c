#include "scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char scratch_directory[64], scratch_file[96];

void make_scratch(void)
{
    snprintf(scratch_directory, sizeof scratch_directory, "%s", "/tmp/homefree-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(scratch_directory));
    snprintf(scratch_file, sizeof scratch_file, "%s/file", scratch_directory);
}

void remove_scratch(void)
{
    unlink(scratch_file);
    rmdir(scratch_directory);
}
