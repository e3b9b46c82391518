"""PyTorch scripts as virtual ranks: `lockstep torchrun`.

    launch.py  the command: runs a job, says what came of it, judges what it recorded
    options.py  its command line
    zygote.py  the process that imports PyTorch once, and forks the ranks
    rank.py  a rank's process, from the fork to its last line
    output.py  what ranks print
    connection.py  a rank's requests to the coordinator (sim/process), in the messages of wire.py
    arena.py  memory that a rank and the coordinator share
    works.py  calls under way, their works and futures
    process_group.py  c10d's process group; elements.py, monitored.py and sparse.py belong to it
    store.py  c10d's stores
    redirect.py  puts all this where a script asks for gloo or nccl
    script_job.py  scripts that start their ranks themselves: `lockstep run SCRIPT`
    spawn.py  torch.multiprocessing.spawn in such a script
    spawn_request.py  what the processes do that it starts
    clock.py  virtual time
    random_state.py  random states as ranks of a launcher have them
"""
