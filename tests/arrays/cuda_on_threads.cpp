// CUDA's words for a CPU: the threads of a block are threads, and wait for each other at a barrier.
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

using std::log;

struct Index { int x, y; };
thread_local Index threadIdx, blockIdx, blockDim, gridDim;
thread_local std::barrier<> *meeting;
double memory[1 << 16];

#define __global__
#define __device__
#define __shared__
#define sqrtf std::sqrt
#define __syncthreads() meeting->arrive_and_wait()

double exchange[1024];
double __shfl_down_sync(unsigned, double value, int by)
{
    const int lane = threadIdx.x, thread = threadIdx.y * blockDim.x + lane;
    exchange[thread] = value;
    meeting->arrive_and_wait();
    const double other = exchange[lane + by < 32 ? thread + by : thread];
    meeting->arrive_and_wait();
    return other;
}

#include KERNELS

template <typename Kernel>
void run(Index grid, Index block, Kernel kernel)
{
    std::barrier<> barrier(block.x * block.y);
    std::vector<std::thread> threads;
    for (int t = 0; t < block.x * block.y; t++)
        threads.emplace_back([&, t] {
            gridDim = grid, blockDim = block, meeting = &barrier;
            threadIdx = {t % block.x, t / block.x};
            for (int i = 0; i < grid.x * grid.y; i++) {
                blockIdx = {i % grid.x, i / grid.x};
                kernel();
                barrier.arrive_and_wait();
            }
        });
    for (auto &thread : threads)
        thread.join();
}

extern "C" void run_update_rows(
    Index grid, Index block, int H, long long pitch, double *gram, double *pull,
    const long long *starts, double share, const double *shares, const double *last,
    const double *ridge, double s2, double *second, double *log_dets)
{
    run(grid, block, [=] {
        update_rows(
            H, pitch, gram, pull, starts, share, shares, last, ridge, s2, second, log_dets);
    });
}

extern "C" void run_add_up_float32(
    Index grid, Index block, const float *X, long long n, long long p, long long pitch,
    const double *shift, double *totals, double *squares)
{
    run(grid, block, [=] { add_up_float32(X, n, p, pitch, shift, totals, squares); });
}

extern "C" void run_add_up_float64(
    Index grid, Index block, const double *X, long long n, long long p, long long pitch,
    const double *shift, double *totals, double *squares)
{
    run(grid, block, [=] { add_up_float64(X, n, p, pitch, shift, totals, squares); });
}

extern "C" void run_add_up_where(
    Index grid, Index block, const bool *mask, long long m, int p, const double *x, double *sums)
{
    run(grid, block, [=] { add_up_where(mask, m, p, x, sums); });
}
