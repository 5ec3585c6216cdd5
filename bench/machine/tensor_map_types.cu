// A box that TMA loads by a map, as it arrives in shared memory.
struct alignas(64) Map { unsigned long long words[16]; };
constexpr int ELEMENTS = 256;

extern "C" __global__ void loaded(const __grid_constant__ Map map, unsigned *out)
{
    __shared__ alignas(128) unsigned box[ELEMENTS];
    __shared__ alignas(8) unsigned long long barrier;
    unsigned place = (unsigned)__cvta_generic_to_shared(box), at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(at) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(ELEMENTS * 4) : "memory");
        asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];"
                     ::"r"(place), "l"(&map), "r"(at), "r"(blockIdx.x * ELEMENTS) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred done; AGAIN: mbarrier.try_wait.parity.shared.b64 done, [%0], 0; @!done bra AGAIN; }" ::"r"(at) : "memory");
    for (int i = threadIdx.x; i < ELEMENTS; i += 32) out[blockIdx.x * ELEMENTS + i] = box[i];
}
