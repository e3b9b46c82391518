// Data sets, samplers and loaders, and the random numbers that batches are made of.
//
//   data::DistributedSampler sampler(rank, {.size = 100});  // Made for its rank: checked by laws.
//   sampler.set_epoch(epoch);  // Another order each epoch, the same on every rank.
//   sampler.indices(my_samples);
#pragma once

#include "lockstep/data/batch_sampler.h"
#include "lockstep/data/csv.h"
#include "lockstep/data/data_loader.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/digits.h"
#include "lockstep/data/distributed_sampler.h"
#include "lockstep/data/npy.h"
#include "lockstep/data/random_sampler.h"
#include "lockstep/data/sampler.h"
#include "lockstep/data/split.h"
#include "lockstep/data/synthetic.h"
#include "lockstep/data/text.h"
#include "lockstep/random/discrete.h"
#include "lockstep/random/generator.h"
#include "lockstep/random/multinomial.h"
#include "lockstep/random/normal.h"
#include "lockstep/random/permutation.h"
#include "lockstep/random/uniform.h"
