"""Broken: rank 0 leaves out the last rank of a group that the others make with it, and all wait while it is made."""
import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    everyone = list(range(dist.get_world_size()))
    group = dist.new_group(everyone[:-1] if dist.get_rank() == 0 else everyone)
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
