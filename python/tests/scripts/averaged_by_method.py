"""Healthy: a loop that averages gradients by itself, and calls another method of its model than forward, as for an actor and its critic."""
import torch
import torch.distributed as dist
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
        self.actor = nn.Linear(16, 4)
        self.critic = nn.Linear(16, 1)

    def judge(self, seen):
        hidden = self.trunk(seen)
        return self.actor(hidden), self.critic(hidden)


def average(model):
    grads = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    flat = torch.cat([grad.view(-1) for grad in grads])
    dist.all_reduce(flat)
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(part.view_as(grad) / dist.get_world_size())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    agent = Agent()
    torch.manual_seed(11 + dist.get_rank())
    optimizer = torch.optim.Adam(agent.parameters(), lr=0.01)
    for _ in range(6):
        seen = torch.randn(16, 8)
        policy, value = agent.judge(seen)
        loss = nn.functional.cross_entropy(policy, seen[:, :4].argmax(1)) + (value.squeeze(1) - seen.sum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average(agent)
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
