"""What torch takes for the searches of bench/cuda_nearest.cc, the vectors being on the GPU already."""

import statistics

import torch


def median_ms(work, times=40):
    for _ in range(5):
        work()
    torch.cuda.synchronize()
    taken = []
    for _ in range(times):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(start.elapsed_time(end))
    return statistics.median(taken)


def main():
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}")
    for queries, vectors, d in ((2304, 65536, 512), (784, 20000, 1024)):
        memory = torch.randn(vectors, d, device="cuda")
        asked = torch.randn(queries, d, device="cuda")
        for tf32 in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = tf32
            taken = median_ms(lambda: torch.cdist(asked, memory).min(dim=1))
            print(f"{queries} x {vectors} x {d}: cdist and min {taken:.3f} ms{' (TF32)' if tf32 else ''}")


if __name__ == "__main__":
    main()
