// Double precision: arithmetic with rounding modes, division and roots, conversions, libm functions.
extern "C" __global__ void double_arithmetic(double *dst, const double *a, const double *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = a[i], y = b[i];
    dst[8 * i] = __dadd_rn(x, y);
    dst[8 * i + 1] = __dmul_rn(x, y);
    dst[8 * i + 2] = x / y;
    dst[8 * i + 3] = sqrt(fabs(x));
    dst[8 * i + 4] = fmin(x, y) - fmax(x, y);
    dst[8 * i + 5] = fmod(x, y);
    dst[8 * i + 6] = floor(x) + ceil(y) + rint(x);
    dst[8 * i + 7] = x - trunc(y);
}

extern "C" __global__ void double_convert(float *single, int *whole, long long *wide, double *dst, const double *src,
                                          const unsigned long long *bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = src[i];
    single[2 * i] = (float)x;
    single[2 * i + 1] = __double2float_rz(x);
    whole[2 * i] = (int)x;
    whole[2 * i + 1] = __double2int_rn(x);
    wide[2 * i] = (long long)(x * 1e9);
    wide[2 * i + 1] = __double2ll_rd(x);
    dst[4 * i] = (double)bits[i];
    dst[4 * i + 1] = (double)(long long)bits[i];
    dst[4 * i + 2] = (double)(int)bits[i];
    dst[4 * i + 3] = (double)(float)x;
}

extern "C" __global__ void double_libm(double *dst, const double *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = src[i], y = fabs(x) + 0.01;
    dst[8 * i] = sin(x);
    dst[8 * i + 1] = cos(x);
    dst[8 * i + 2] = exp(x);
    dst[8 * i + 3] = log(y);
    dst[8 * i + 4] = pow(y, x * 0.3);
    dst[8 * i + 5] = atan2(x, y);
    dst[8 * i + 6] = tanh(x);
    dst[8 * i + 7] = cbrt(x);
}

extern "C" __global__ void double_special(double *dst, const double *src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double x = src[i];
    dst[6 * i] = erf(x);
    dst[6 * i + 1] = erfc(x);
    dst[6 * i + 2] = lgamma(fabs(x) + 2.5);
    dst[6 * i + 3] = tgamma(fabs(x) + 0.5);
    dst[6 * i + 4] = rsqrt(fabs(x) + 0.1);
    dst[6 * i + 5] = sin(x * 1e9);
}

// Horner's rule and a compensated sum: chains of dependent DFMA and DADD.
extern "C" __global__ void double_compensated(double *dst, const double *src, int terms) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0.0, lost = 0.0, x = src[i], poly = 0.0;
    for (int k = 1; k <= terms; ++k) {
        double term = __dsub_rn(__ddiv_rn(x, (double)k), lost);
        double next = __dadd_rn(sum, term);
        lost = __dsub_rn(__dsub_rn(next, sum), term);
        sum = next;
        poly = fma(poly, 0.5, x);
    }
    dst[2 * i] = sum;
    dst[2 * i + 1] = poly;
}
