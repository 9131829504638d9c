/*
 * A libhomefree of a later release, to link with: it has a version node that this one has not.
 */
__attribute__((visibility("default"))) int hf_of_the_future(void)
{
    return 1;
}
