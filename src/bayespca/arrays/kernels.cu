// CUDA kernels for computations that array libraries lack, or do several times more slowly.
//
// A thread's index advances by the size of the block, so that blocks of any shape give the same
// result, unless a comment says otherwise. The tests also compile this file for the CPU.

// Position that column 0 of row g would have in a packed triangle of H rows.
__device__ int row_begins(const int g, const int H)
{
    return g * H - g * (g + 1) / 2;
}

// The row of an entry of a packed triangle.
__device__ int row_of(const int entry, const int H)
{
    const float b = 2 * H + 1;
    int g = (int)(0.5f * (b - sqrtf(b * b - 8.0f * entry)));
    while (g > 0 && row_begins(g, H) + g > entry)
        g--;
    while (row_begins(g + 1, H) + g + 1 <= entry)
        g++;
    return g;
}

// Replace C by minus its inverse, sweeping out one pivot after another, and store 1/pivot of each.
// Pivots are the squared diagonal of Cholesky's factor, so this is as accurate as Cholesky.
#if ROWS
// Each thread keeps one column in registers: H <= ROWS <= blockDim.x, with 1 on the diagonal beyond
// H. The compiler must know the index of each register, so rows move up by one with each pivot, and
// the pivot is always in row 0: after ROWS pivots they are back in place. Shared x: 2 * ROWS.
__device__ void invert(const int H, const int width, double *C, double *x, double *pivots)
{
    const int h = threadIdx.x;
    double column[ROWS];
#pragma unroll
    for (int g = 0; g < ROWS; g++)
        column[g] = g < H && h < H ? C[g * width + h] : g == h;
    for (int k = 0; k < ROWS; k++) {
        double *row = x + (k & 1) * ROWS;  // other threads may still read the other half
        if (h < ROWS)
            row[h < k ? h - k + ROWS : h - k] = column[0];
        __syncthreads();
        const double t = 1 / row[0], y = h == k ? -t : column[0] * t;
#pragma unroll
        for (int g = 1; g < ROWS; g++)
            column[g - 1] = (h == k ? 0 : column[g]) - row[g] * y;
        column[ROWS - 1] = y;
        if (h == k && k < H)
            pivots[k] = t;
    }
#pragma unroll
    for (int g = 0; g < ROWS; g++)
        if (g < H && h < H)
            C[g * width + h] = column[g];
    __syncthreads();
}
#else
__device__ void invert(const int H, const int width, double *C, double *x, double *pivots)
{
    for (int k = 0; k < H; k++) {
        const double t = 1 / C[k * width + k];
        if (threadIdx.y == 0)
            for (int h = threadIdx.x; h < H; h += blockDim.x)
                x[h] = C[k * width + h];
        __syncthreads();
        for (int h = threadIdx.x; h < H; h += blockDim.x) {
            const double y = h == k ? -t : x[h] * t;
            for (int g = threadIdx.y; g < H; g += blockDim.y)
                C[g * width + h] = g == k ? y : (h == k ? 0 : C[g * width + h]) - x[g] * y;
        }
        if (threadIdx.x == 0 && threadIdx.y == 0)
            pivots[k] = t;
        __syncthreads();
    }
}
#endif

// Posterior of rows given that of columns, with one block per pattern; `kernels.by_numpy` defines
// the result.
//
// gram    (patterns, pitch): packed sums of <bb'> in; covariances out, unless `second` is given.
// pull    (rows, H): pull of each row in; means out.
// starts  first row of each pattern, and the number of rows at the end; null if each pattern has
//         one row.
// second  (patterns, (H + 1)(H + 2)/2): packed sums of <aa'> out; null if they are not wanted.
// shares  (patterns): total weight of the covariances of a pattern's rows; null for share per row.
// last_a  (rows): last entry of each row's a; null if all are 1.
//
// Shared memory: H * (H | 1) + H + 2 * max(ROWS, H) numbers.
extern "C" __global__ void update_rows(
    const int H, const long long pitch, double *gram, double *pull, const long long *starts,
    const double share, const double *shares, const double *last_a, const double *ridge,
    const double s2, double *second, double *log_dets)
{
    extern __shared__ double memory[];
    const int width = H | 1;  // odd, so that a column does not lie in one memory bank
    double *C = memory, *pivots = C + H * width, *x = pivots + H;
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    const long long pattern = blockIdx.x;
    const long long first = starts ? starts[pattern] : pattern;
    const long long last = starts ? starts[pattern + 1] : pattern + 1;
    double *packed = gram + pattern * pitch;

#pragma unroll 4
    for (int entry = thread; entry < H * (H + 1) / 2; entry += threads) {
        const int g = row_of(entry, H), h = entry - row_begins(g, H);
        C[g * width + h] = C[h * width + g] = packed[entry] + (g == h ? ridge[h] : 0);
    }
    __syncthreads();
    invert(H, width, C, x, pivots);

    for (long long row = first; row < last; row++) {
        for (int h = thread; h < H; h += threads)
            x[h] = pull[row * H + h];
        __syncthreads();
        for (int h = thread; h < H; h += threads) {
            double mean = 0;
            for (int g = 0; g < H; g++)
                mean -= C[g * width + h] * x[g];
            pull[row * H + h] = mean;
        }
        __syncthreads();
    }
    for (int h = thread; h < H; h += threads)
        pivots[h] = log(s2 * pivots[h]);
    __syncthreads();
    if (thread == 0) {
        double sum = 0;
        for (int h = 0; h < H; h++)
            sum += pivots[h];
        log_dets[pattern] = sum;
    }
    if (!second) {
        for (int g = threadIdx.y; g < H; g += blockDim.y)
            for (int h = g + threadIdx.x; h < H; h += blockDim.x)
                packed[row_begins(g, H) + h] = -s2 * C[g * width + h];
        return;
    }
    const double weight = s2 * (shares ? shares[pattern] : share * (last - first));
    double *sums = second + pattern * ((H + 1) * (H + 2) / 2);
    for (int g = threadIdx.y; g <= H; g += blockDim.y)
        for (int h = g + threadIdx.x; h <= H; h += blockDim.x) {
            double sum = h < H ? -weight * C[g * width + h] : 0;
            for (long long row = first; row < last; row++) {
                const double known = last_a ? last_a[row] : 1;
                sum += (g < H ? pull[row * H + g] : known) * (h < H ? pull[row * H + h] : known);
            }
            sums[row_begins(g, H + 1) + h] = sum;
        }
}

// Sums of x over the true cells of each row of a mask, with one warp per row.
extern "C" __global__ void add_up_where(
    const bool *mask, const long long m, const int p, const double *x, double *sums)
{
    const long long row = blockIdx.x * (long long)blockDim.y + threadIdx.y;
    double sum = 0;
    if (row < m)
        for (int j = threadIdx.x; j < p; j += 32)
            sum += mask[row * p + j] ? x[j] : 0;
    for (int half = 16; half; half /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, half);
    if (row < m && threadIdx.x == 0)
        sums[row] = sum;
}

// Sums of the columns of X - shift and of their squares, in float64; each block in y adds up one
// part of the rows. `shift` and `squares` may be null.
template <typename Number>
__device__ void add_up(
    const Number *X, const long long n, const long long p, const long long pitch,
    const double *shift, double *totals, double *squares)
{
    const long long j = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (j >= p)
        return;
    const long long rows = (n + gridDim.y - 1) / gridDim.y, first = blockIdx.y * rows;
    const long long last = first + rows < n ? first + rows : n;
    const double less = shift ? shift[j] : 0;
    double total = 0, square = 0;
#pragma unroll 8
    for (long long i = first; i < last; i++) {
        const double x = (double)X[i * pitch + j] - less;
        total += x;
        square += x * x;
    }
    totals[blockIdx.y * p + j] = total;
    if (squares)
        squares[blockIdx.y * p + j] = square;
}

extern "C" __global__ void add_up_float32(
    const float *X, const long long n, const long long p, const long long pitch,
    const double *shift, double *totals, double *squares)
{
    add_up(X, n, p, pitch, shift, totals, squares);
}

extern "C" __global__ void add_up_float64(
    const double *X, const long long n, const long long p, const long long pitch,
    const double *shift, double *totals, double *squares)
{
    add_up(X, n, p, pitch, shift, totals, squares);
}
