// Optimizers, learning-rate schedules, the gradient scaler, clipping of gradients.
//
//   optim::Sgd optimizer(model.parameters(), {.lr = 0.1});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.step();
#pragma once

#include "lockstep/optim/adagrad.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/grad_scaler.h"
#include "lockstep/optim/lr_rules.h"
#include "lockstep/optim/lr_scheduler.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/reduce_lr_on_plateau.h"
#include "lockstep/optim/rmsprop.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/optim/sparse_adam.h"
