// Serves a packaged NumPy model over 1, 2 and 4 Python interpreters, each with a GIL of its own.
//
// usage: serve PACKAGE [REQUESTS]
//
// Eight threads of this program, which Python knows nothing of, send requests. The rows of a
// request and the answer to it cross by reference: nothing is pickled or copied. Each answer is
// compared with the main interpreter's. What is written once and then only read (the inputs and the
// expected answers) needs no lock; threads share the counters alone.

#include <Python.h>

#include <homefree/interpreters.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace
{

constexpr int THREADS = 8, DISTINCT = 64, ROWS = 8, WIDTH = 32;

using Rows = std::vector<float>;

[[noreturn]] void fail(const std::string &what)
{
    throw std::runtime_error(what);
}

// ---- the main interpreter ----

void start_python()
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        Py_ExitStatusException(status);
}

// The model's answer in the main interpreter, where it is an object like any other.
Rows answer_of(PyObject *model, Rows &input)
{
    auto *bytes = reinterpret_cast<char *>(input.data());
    const auto size = static_cast<Py_ssize_t>(input.size() * sizeof(float));
    PyObject *view = PyMemoryView_FromMemory(bytes, size, PyBUF_READ);
    PyObject *rows = PyObject_CallMethod(view, "cast", "s(ii)", "f", ROWS, WIDTH);
    PyObject *answer = PyObject_CallMethod(model, "predict", "O", rows);
    Py_buffer buffer;
    if (answer == nullptr || PyObject_GetBuffer(answer, &buffer, PyBUF_CONTIG_RO) != 0) {
        PyErr_Print();
        fail("the model does not work in the main interpreter");
    }
    const auto *first = static_cast<const float *>(buffer.buf);
    Rows copied(first, first + buffer.len / static_cast<Py_ssize_t>(sizeof(float)));
    PyBuffer_Release(&buffer);
    Py_DECREF(answer);
    Py_DECREF(rows);
    Py_DECREF(view);
    return copied;
}

std::vector<Rows> expected_answers(const char *package, std::vector<Rows> &inputs)
{
    PyObject *homefree = PyImport_ImportModule("homefree.package");
    PyObject *reader =
        homefree != nullptr ? PyObject_CallMethod(homefree, "Reader", "s", package) : nullptr;
    PyObject *model = reader != nullptr
                          ? PyObject_CallMethod(reader, "load_pickle", "ss", "models", "mlp.pkl")
                          : nullptr;
    if (model == nullptr) {
        PyErr_Print();
        fail("the package cannot be loaded");
    }
    std::vector<Rows> answers;
    for (Rows &input : inputs)
        answers.push_back(answer_of(model, input));
    Py_DECREF(model);
    Py_DECREF(reader);
    Py_DECREF(homefree);
    return answers;
}

// ---- interpreters ----

// A group of interpreters with a model in each.
class Server
{
  public:
    Server(unsigned count, const char *package)
    {
        char why[512];
        hf_interpreters_options options{};
        options.size = sizeof options;
        options.count = count;
        if (hf_interpreters_start(&group_, &options, why, sizeof why) != 0)
            fail(why);
        // The package brings the model's code; only NumPy has to be installed.
        hf_value error{};
        if (hf_replica_from_package(&model_, group_, package, "models", "mlp.pkl", &error) != 0)
            fail(error.kind == HF_VALUE_ERROR ? error.as.error->traceback : "there is no model");
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    ~Server()
    {
        hf_replica_drop(model_);
        hf_interpreters_end(group_, -1);
    }

    // Whether the answer to a request is the expected one. The interpreter reads the rows where
    // they are, and the answer is read where NumPy put it; hf_value_clear() lets it go.
    bool serve(const Rows &input, const Rows &expected) const
    {
        const int64_t shape[] = {ROWS, WIDTH};
        hf_memory memory{};
        memory.pointer = const_cast<float *>(input.data());
        memory.bytes = input.size() * sizeof(float);
        memory.format = "f";
        memory.item_size = sizeof(float);
        memory.dimensions = 2;
        memory.shape = shape;
        memory.read_only = true;
        hf_value rows{}, answer{};
        rows.kind = HF_VALUE_MEMORY;
        rows.as.memory = &memory;
        const int error = hf_replica_call(model_, "predict", &rows, 1, &answer);
        if (answer.kind == HF_VALUE_ERROR)
            std::fprintf(stderr, "%s\n", answer.as.error->traceback);
        const bool right = error == 0 && answer.kind == HF_VALUE_MEMORY &&
                           answer.as.memory->bytes == expected.size() * sizeof(float) &&
                           std::equal(expected.begin(), expected.end(),
                                      static_cast<const float *>(answer.as.memory->pointer),
                                      [](float a, float b) { return std::fabs(a - b) < 1e-5F; });
        hf_value_clear(&answer);
        return right;
    }

  private:
    hf_interpreters *group_ = nullptr;
    hf_replica *model_ = nullptr;
};

// ---- the host's threads ----

struct Speed {
    double requests;   // a second
    double processors; // that were busy; one GIL allows one
};

// Wrong answers are counted.
Speed serve_all(const Server &server, const std::vector<Rows> &inputs,
                const std::vector<Rows> &expected, int requests, std::atomic<int> &wrong)
{
    std::atomic<int> next{0};
    const auto work = [&] {
        for (int number; (number = next++) < requests;)
            if (!server.serve(inputs[number % DISTINCT], expected[number % DISTINCT]))
                wrong++;
    };
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t used = std::clock();
    std::vector<std::thread> threads;
    for (int i = 0; i < THREADS; i++)
        threads.emplace_back(work);
    for (std::thread &thread : threads)
        thread.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    const double busy = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
    return {requests / time.count(), busy / time.count()};
}

int run(const char *package, int requests)
{
    std::mt19937 random(2);
    std::uniform_real_distribution<float> number;
    std::vector<Rows> inputs(DISTINCT, Rows(ROWS * WIDTH));
    for (Rows &input : inputs)
        std::generate(input.begin(), input.end(), [&] { return number(random); });

    start_python();
    const std::vector<Rows> expected = expected_answers(package, inputs);
    PyThreadState *main = PyEval_SaveThread(); // the host's threads need no GIL of this interpreter
    std::atomic<int> wrong{0};
    for (unsigned count : {1U, 2U, 4U}) {
        const Server server(count, package);
        serve_all(server, inputs, expected, DISTINCT, wrong);
        const Speed speed = serve_all(server, inputs, expected, requests, wrong);
        std::printf("%u interpreter%s: %6.0f requests a second, %.1f processors busy\n", count,
                    count == 1 ? "" : "s", speed.requests, speed.processors);
    }
    std::printf("%d answers, %d wrong\n", 3 * (requests + DISTINCT), wrong.load());
    PyEval_RestoreThread(main);
    hf_interpreters_finish(-1);
    return Py_FinalizeEx() == 0 && wrong == 0 ? 0 : 1;
}

} // namespace

int main(int count, char **arguments)
{
    if (count < 2) {
        std::fprintf(stderr, "usage: serve PACKAGE [REQUESTS]\n");
        return 2;
    }
    setenv("OPENBLAS_NUM_THREADS", "1", 0); // each interpreter is a processor's work already
    try {
        return run(arguments[1], count > 2 ? std::atoi(arguments[2]) : 4000);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "serve: %s\n", error.what());
        return 1;
    }
}
