// Recurrent layers: cells of one time step and their gradients, copies of states, dropout between layers.
// Macros: ELEMENT, SUM, MODE (cudnnRNNMode_t: 0 ReLU, 1 tanh, 2 LSTM, 3 GRU).
#include "types.cuh"

#define GATES (MODE == 2 ? 4 : MODE == 3 ? 3 : 1)
#define THREADS 256
typedef SUM S;
typedef ELEMENT T;

__device__ __forceinline__ float tangent(float v) { return tanhf(v); }
__device__ __forceinline__ double tangent(double v) { return tanh(v); }
__device__ __forceinline__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
__device__ __forceinline__ double sigmoid(double v) { return 1.0 / (1.0 + exp(-v)); }
__device__ __forceinline__ S load(const T *p) { return To<S>::from(*p); }

// One step: rows of the batch that are active, in the step's part of the layer's arrays.
struct Step {
    S *gates;            // rows x GATES x hidden: the inputs' products, then the gates
    const S *recurrent;  // rows x GATES x hidden: the states' products
    const T *input_bias, *recurrent_bias;  // GATES x hidden, or null
    T *state;      // rows x hidden: h before, then after
    S *cell;       // rows x hidden: c before, then after
    T *kept_state; // rows x hidden: h before, for gradients
    S *kept_cell;  // rows x 2 x hidden: LSTM: c before and after; GRU: the new gate's recurrent part
    T *y;
    i64 y_step;
    const T *dy;   // gradient of y
    S *d_state, *d_cell;        // gradients of h and c
    T *d_input, *d_recurrent;   // gradients of the two products; the same but for GRU
    int rows, hidden;
};

extern "C" __global__ void warpwright_rnn_forward(Step s) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)s.rows * s.hidden) return;
    int row = (int)(at / s.hidden), unit = (int)(at % s.hidden);
    S sums[GATES], bias[GATES], from_state[GATES];
    for (int g = 0; g < GATES; g++) {
        i64 place = ((i64)row * GATES + g) * s.hidden + unit;
        sums[g] = s.gates[place];
        from_state[g] = s.recurrent[place];
        bias[g] = s.input_bias ? load(s.input_bias + g * s.hidden + unit) : (S)0;
        if (s.recurrent_bias) from_state[g] += load(s.recurrent_bias + g * s.hidden + unit);
    }
    S before = load(s.state + at), h;
    s.kept_state[at] = s.state[at];
    S *gates = s.gates + (i64)row * GATES * s.hidden + unit;
    for (int g = 0; g < GATES; g++) sums[g] += bias[g] + (MODE == 3 && g == 2 ? (S)0 : from_state[g]);
    if (MODE == 2) {
        S in = sigmoid(sums[0]), forget = sigmoid(sums[1 % GATES]), fresh = tangent(sums[2 % GATES]), out = sigmoid(sums[3 % GATES]);
        S c = forget * s.cell[at] + in * fresh;
        s.kept_cell[(i64)row * 2 * s.hidden + unit] = s.cell[at];
        s.kept_cell[((i64)row * 2 + 1) * s.hidden + unit] = c;
        s.cell[at] = c;
        h = out * tangent(c);
        gates[0] = in, gates[s.hidden] = forget, gates[2 * (i64)s.hidden] = fresh, gates[3 * (i64)s.hidden] = out;
    } else if (MODE == 3) {
        S reset = sigmoid(sums[0]), update = sigmoid(sums[1 % GATES]), fresh = tangent(sums[2 % GATES] + reset * from_state[2 % GATES]);
        s.kept_cell[(i64)row * 2 * s.hidden + unit] = from_state[2 % GATES];
        h = (before - fresh) * update + fresh;
        gates[0] = reset, gates[s.hidden] = update, gates[2 * (i64)s.hidden] = fresh;
    } else {
        h = MODE == 1 ? tangent(sums[0]) : sums[0] > 0 ? sums[0] : (S)0;
        gates[0] = h;
    }
    put(s.state + at, h);
    put(s.y + row * s.y_step + unit, h);
}

extern "C" __global__ void warpwright_rnn_backward(Step s) {
    i64 at = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (at >= (i64)s.rows * s.hidden) return;
    int row = (int)(at / s.hidden), unit = (int)(at % s.hidden);
    const S *gates = s.gates + (i64)row * GATES * s.hidden + unit;
    i64 place = (i64)row * GATES * s.hidden + unit, H = s.hidden;
    S dh = s.d_state[at] + load(s.dy + row * s.y_step + unit), carried = 0;
    if (MODE == 2) {
        S in = gates[0], forget = gates[H], fresh = gates[2 * H], out = gates[3 * H];
        S before = s.kept_cell[(i64)row * 2 * H + unit], t = tangent(s.kept_cell[((i64)row * 2 + 1) * H + unit]);
        S dc = s.d_cell[at] + dh * out * (1 - t * t);
        put(s.d_input + place, dc * fresh * in * (1 - in));
        put(s.d_input + place + H, dc * before * forget * (1 - forget));
        put(s.d_input + place + 2 * H, dc * in * (1 - fresh * fresh));
        put(s.d_input + place + 3 * H, dh * t * out * (1 - out));
        s.d_cell[at] = dc * forget;
    } else if (MODE == 3) {
        S reset = gates[0], update = gates[H], fresh = gates[2 * H], before = load(s.kept_state + at);
        S dn = dh * (1 - update) * (1 - fresh * fresh), dr = dn * s.kept_cell[(i64)row * 2 * H + unit] * reset * (1 - reset);
        S dz = dh * (before - fresh) * update * (1 - update);
        put(s.d_input + place, dr), put(s.d_recurrent + place, dr);
        put(s.d_input + place + H, dz), put(s.d_recurrent + place + H, dz);
        put(s.d_input + place + 2 * H, dn), put(s.d_recurrent + place + 2 * H, dn * reset);
        carried = dh * update;
    } else {
        S h = gates[0];
        put(s.d_input + place, MODE == 1 ? dh * (1 - h * h) : h > 0 ? dh : (S)0);
    }
    s.d_state[at] = carried;
}

// States between the caller's type and that of sums; no source: zeros.
extern "C" __global__ void warpwright_rnn_widen(i64 count, const T *from, S *to) {
    i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (i < count) to[i] = from ? load(from + i) : (S)0;
}
extern "C" __global__ void warpwright_rnn_narrow(i64 count, const S *from, T *to) {
    i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (i < count) put(to + i, from[i]);
}
extern "C" __global__ void warpwright_rnn_copy(i64 count, const T *from, T *to) {
    i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (i >= count) return;
    if (from) to[i] = from[i];
    else put(to + i, (S)0);
}

// Adds the sums of columns to a bias's gradient, or stores them.
extern "C" __global__ void warpwright_rnn_column_sums(i64 rows, int columns, const T *values, T *to, int adds) {
    int column = blockIdx.x * THREADS + threadIdx.x;
    if (column >= columns) return;
    S sum = adds ? load(to + column) : (S)0;
    for (i64 row = 0; row < rows; row++) sum += load(values + row * columns + column);
    put(to + column, sum);
}

__device__ __forceinline__ unsigned scrambled(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (unsigned)((x ^ (x >> 31)) >> 32);
}
// Dropout: the factors of a call's elements, 0 or 1 / (1 - probability), and the products with them.
extern "C" __global__ void warpwright_rnn_drop(i64 count, const T *from, T *to, T *factors, double probability, unsigned long long seed, int makes) {
    i64 i = blockIdx.x * (i64)THREADS + threadIdx.x;
    if (i >= count) return;
    if (makes) {
        bool kept = scrambled(seed + (unsigned long long)i * 0x9e3779b97f4a7c15ull) >= probability * 4294967296.0;
        put(factors + i, kept ? (S)(1 / (1 - probability)) : (S)0);
    }
    put(to + i, load(from + i) * load(factors + i));
}
