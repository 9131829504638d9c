// A C++ thread_local object may free and allocate in its destructor while its thread ends, and the
// thread may use the heap after that: no memory is lost.
#include "death.h"
#include "growth.h"

#include <cstring>
#include <pthread.h>

namespace
{

struct Holder {
    char *block = nullptr;

    ~Holder()
    {
        must(std::strcmp(block, "held") == 0);
        hf_free(block);
        for (size_t size = 1; size < 50000; size *= 3) {
            char *p = static_cast<char *>(hf_malloc(size));
            must(p != nullptr);
            std::memset(p, 1, size);
            hf_free(p);
        }
    }

    void hold()
    {
        hf_free(block);
        block = hf_strdup("held");
        must(block != nullptr);
    }
};

thread_local Holder holder;
pthread_key_t key;

// Runs after ~Holder and after the heap's own destructor.
void use_again(void *value)
{
    hf_free(value);
    hf_free(hf_malloc(1000));
}

void *run(void *)
{
    holder.hold();
    must(pthread_setspecific(key, hf_malloc(10)) == 0);
    return nullptr;
}

void one_thread(void *)
{
    pthread_t thread;
    must(pthread_create(&thread, nullptr, run, nullptr) == 0);
    must(pthread_join(thread, nullptr) == 0);
}

START_TEST(no_growth)
{
    ck_assert_int_eq(pthread_key_create(&key, use_again), 0);
    assert_no_growth(one_thread, nullptr, 20, 200, 256 << 10);
}
END_TEST

} // namespace

int main()
{
    return RUN_SUITE(no_growth);
}
