/*
 * Takes all thread-specific keys that the process has: loaded before libhomefree.
 */
#include <pthread.h>

__attribute__((constructor)) static void take_all(void)
{
    pthread_key_t key;
    while (pthread_key_create(&key, NULL) == 0)
        ;
}
