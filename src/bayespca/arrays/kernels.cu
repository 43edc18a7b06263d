// CUDA kernels for what array libraries have no call for, or one that is several times slower.
//
// Each index that is a thread's own walks on by the size of the block, so that a block of any shape
// computes the same, unless it says otherwise. The tests compile this file for the CPU as well.

// Where row g of a packed triangle of H rows would have its column 0.
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

// Minus the inverse of C, in its place, and 1/pivots: one pivot after another is swept out. Pivots
// are the squares of the diagonal of Cholesky's factor, so that this is as accurate.
#if ROWS
// Each thread keeps a column in its registers, H <= ROWS <= blockDim.x, with 1 on the diagonal beyond
// H. The compiler has to know which register is meant, so that rows move up by one with each pivot,
// which is always the first: after ROWS of them they are where they were. Shared x: 2 * ROWS.
__device__ void invert(const int H, const int width, double *C, double *x, double *pivots)
{
    const int h = threadIdx.x;
    double column[ROWS];
#pragma unroll
    for (int g = 0; g < ROWS; g++)
        column[g] = g < H && h < H ? C[g * width + h] : g == h;
    for (int k = 0; k < ROWS; k++) {
        double *row = x + (k & 1) * ROWS;  // the other half may still be read
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

// The posterior of rows given that of columns, pattern by pattern, a block for each pattern:
// `kernels.by_numpy` says what is computed.
//
// gram    (patterns, pitch): packed sums of <bb'> in; covariances out, unless there is `second`.
// pull    (rows, H): in; means out.
// starts  where the rows of each pattern begin, with their number at the end; null where each
//         pattern has one row.
// second  (patterns, (H + 1)(H + 2)/2): packed sums of <aa'>; null where they are not wanted.
// shares  (patterns): what the covariances of the rows of each pattern count; null for share each.
// last_a  (rows): the last entry of each row's a; null where it is 1.
//
// Shared memory: H * (H | 1) + H + 2 * max(ROWS, H) numbers.
extern "C" __global__ void update_rows(
    const int H, const long long pitch, double *gram, double *pull, const long long *starts,
    const double share, const double *shares, const double *last_a, const double *ridge,
    const double s2, double *second, double *log_dets)
{
    extern __shared__ double memory[];
    const int width = H | 1;  // odd, so that a column does not lie in one bank of the memory
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

// Sums of x over what is there in each row of a mask, a warp for each row.
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

// Sums of the columns of X - shift and of their squares, in float64, over a part of the rows for
// each block in y. `shift` and `squares` may be null.
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
