/* A program that embeds CPython, for test_capsules.py: the memory of a capsule, and a held object,
 * outlive Py_Finalize() in a C thread; CPython starts again; each interpreter has its own objects.
 */
#include <Python.h>
#include <homefree/python.h>

#include "../support/require.h"

#include <stdio.h>
#include <stdlib.h>

static int destroyed;
static pthread_t destroyer;

static void destroy(void *pointer)
{
    destroyed++;
    destroyer = pthread_self();
    hf_free(pointer);
}

static void *drop(void *record)
{
    hf_release_drop((struct hf_release *)record);
    return NULL;
}

static void drop_in_thread(struct hf_release *record)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, drop, record) == 0)
        pthread_join(thread, NULL);
}

static uint64_t leaked(void)
{
    struct hf_stats stats;
    stats.size = sizeof stats;
    return hf_stats(&stats) == 0 ? stats.releases_leaked : 0;
}

/* Makes a record that a capsule in the interpreter and the caller refer to. */
static struct hf_release *share(void)
{
    PyObject *capsule = hf_capsule_new(hf_malloc(64), "shared", destroy);
    struct hf_release *record = hf_capsule_record(capsule);
    REQUIRE(record != NULL);
    hf_release_take(record);
    REQUIRE(PyObject_SetAttrString(PyImport_AddModule("__main__"), "kept", capsule) == 0);
    Py_DECREF(capsule);
    return record;
}

static struct hf_release *hold(void)
{
    PyObject *list = PyList_New(0);
    struct hf_release *record = hf_object_hold(list);
    REQUIRE(record != NULL);
    Py_DECREF(list);
    return record;
}

int main(void)
{
    struct hf_release *record, *held, *kept;
    PyThreadState *main_state, *state;
    PyObject *capsule;
    uint64_t before;

    /* Before CPython: records do not need it. */
    REQUIRE(hf_release_new(&record, hf_malloc(1), destroy, NULL) == 0);
    hf_release_drop(record);
    REQUIRE(destroyed == 1);

    /* After Py_Finalize(), from a thread. */
    Py_Initialize();
    record = share();
    held = hold();
    kept = hold();
    drop_in_thread(record); /* the capsule has the last reference */
    REQUIRE(destroyed == 1);
    capsule = PyObject_GetAttrString(PyImport_AddModule("__main__"), "kept");
    record = hf_capsule_record(capsule);
    hf_release_take(record);
    Py_DECREF(capsule);
    before = leaked();
    Py_Finalize();
    REQUIRE(destroyed == 1);
    drop_in_thread(record);
    REQUIRE(destroyed == 2);
    REQUIRE(!pthread_equal(destroyer, pthread_self()));
    drop_in_thread(held);
    REQUIRE(leaked() == before + 1);

    /* CPython starts again: an object of its first life does not belong to the second. */
    Py_Initialize();
    hf_release_drop(kept);
    REQUIRE(leaked() == before + 2);
    held = hold();
    kept = hold();
    hf_release_drop(held);
    REQUIRE(leaked() == before + 2);

    /* An object of another interpreter is released there and nowhere else. */
    main_state = PyThreadState_Get();
    state = Py_NewInterpreter();
    REQUIRE(state != NULL);
    held = hold();
    hf_python_drop(kept); /* belongs to the main interpreter */
    REQUIRE(leaked() == before + 3);
    record = share();
    hf_python_drop(hold());
    REQUIRE(leaked() == before + 3);
    /* A thread knows whether it has the GIL only from 3.12 on; before that it must not wait for a
     * GIL that it may have. */
    hf_release_drop(hold());
    before += PY_VERSION_HEX < 0x030c0000;
    REQUIRE(leaked() == before + 3);
    PyThreadState_Swap(main_state);
    hf_release_drop(held);
    REQUIRE(leaked() == before + 4);
    PyThreadState_Swap(state);
    REQUIRE(destroyed == 2);
    Py_EndInterpreter(state);
    REQUIRE(destroyed == 2);
    hf_release_drop(record);
    REQUIRE(destroyed == 3);
    PyThreadState_Swap(main_state);
    /* After a second interpreter, it must still be known whether this thread has a GIL. */
    hf_release_drop(hold());
    REQUIRE(leaked() == before + 4);
    Py_Finalize();
    printf("fine\n");
    return 0;
}
