// CUDA's keywords on a CPU: the threads of a block take turns on one CPU thread, each with a stack
// of its own, from one barrier to the next. Each round has another order, the same in every run, so
// that a missing barrier shows in the results.
#define _XOPEN_SOURCE 700
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <setjmp.h>
#include <vector>

using std::log;

struct Index { int x, y; };
Index threadIdx, blockIdx, blockDim, gridDim;
double memory[1 << 16];

// _longjmp switches contexts, because swapcontext makes a system call each time.
struct Fiber {
    ucontext_t context;
    jmp_buf at;
    bool begun, done;
    std::vector<char> stack;
};
std::vector<Fiber> fibers;
std::function<void()> kernel_of_block;
Fiber *current;
jmp_buf scheduler;

void wait_for_others()
{
    if (!_setjmp(current->at))
        _longjmp(scheduler, 1);
}

void work()
{
    for (int i = 0; i < gridDim.x * gridDim.y; i++) {
        blockIdx = {i % gridDim.x, i / gridDim.x};
        kernel_of_block();
        wait_for_others();
    }
    current->done = true;
    _longjmp(scheduler, 1);
}

#define __global__
#define __device__
#define __shared__
#define sqrtf std::sqrt
#define __syncthreads() wait_for_others()

double exchange[1024];
double __shfl_down_sync(unsigned, double value, int by)
{
    const int lane = threadIdx.x, thread = threadIdx.y * blockDim.x + lane;
    exchange[thread] = value;
    wait_for_others();
    const double other = exchange[lane + by < 32 ? thread + by : thread];
    wait_for_others();
    return other;
}

#include KERNELS

// Run thread t to the next barrier, or to its end.
void take_turn(int t)
{
    current = &fibers[t];
    threadIdx = {t % blockDim.x, t / blockDim.x};
    if (_setjmp(scheduler))
        return;
    if (current->begun)
        _longjmp(current->at, 1);
    current->begun = true;
    setcontext(&current->context);
}

void begin(Fiber &fiber)
{
    fiber.stack.resize(1 << 16);
    fiber.begun = fiber.done = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, work, 0);
}

// Run a kernel. Return 1 if some threads end while others still wait at a barrier, else 0.
int run(Index grid, Index block, std::function<void()> kernel)
{
    const int size = block.x * block.y;
    std::vector<int> order(size);
    std::iota(order.begin(), order.end(), 0);
    std::mt19937 shuffling(size);
    gridDim = grid, blockDim = block, kernel_of_block = kernel;
    if (fibers.size() < size)
        fibers.resize(size);
    for (int t = 0; t < size; t++)
        begin(fibers[t]);
    for (int ended = 0; ended < size;) {
        std::shuffle(order.begin(), order.end(), shuffling);
        for (int t : order)
            take_turn(t);
        ended = std::count_if(
            fibers.begin(), fibers.begin() + size, [](const Fiber &each) { return each.done; });
        if (ended && ended < size)
            return 1;
    }
    return 0;
}

extern "C" int run_update_rows(
    Index grid, Index block, int H, long long pitch, double *gram, double *pull,
    const long long *starts, double share, const double *shares, const double *last,
    const double *ridge, double s2, double *second, double *log_dets)
{
    return run(grid, block, [=] {
        update_rows(
            H, pitch, gram, pull, starts, share, shares, last, ridge, s2, second, log_dets);
    });
}

extern "C" int run_add_up_float32(
    Index grid, Index block, const float *X, long long n, long long p, long long pitch,
    const double *shift, double *totals, double *squares)
{
    return run(grid, block, [=] { add_up_float32(X, n, p, pitch, shift, totals, squares); });
}

extern "C" int run_add_up_float64(
    Index grid, Index block, const double *X, long long n, long long p, long long pitch,
    const double *shift, double *totals, double *squares)
{
    return run(grid, block, [=] { add_up_float64(X, n, p, pitch, shift, totals, squares); });
}

extern "C" int run_add_up_where(
    Index grid, Index block, const bool *mask, long long m, int p, const double *x, double *sums)
{
    return run(grid, block, [=] { add_up_where(mask, m, p, x, sums); });
}
