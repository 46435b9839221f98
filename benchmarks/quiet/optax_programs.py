"""optax: one step of each optimizer on a small net, its gradient transformations, losses and schedules."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from programs import Entry, entries

NET = "9x8 8x16 16x4 9x4"
NARROW = "f32 bf16"


def loss(weights, x, y):
    w1, w2 = weights
    return jnp.mean((jnp.tanh(x @ w1) @ w2 - y).astype(jnp.float32) ** 2)


def step(optimizer, steps=1):
    """`steps` steps on a net of two layers: new weights and the optimizer's state."""

    def function(x, w1, w2, y):
        weights = (w1, w2)
        state = optimizer.init(weights)
        for _ in range(steps):
            value, grads = jax.value_and_grad(loss)(weights, x, y)
            more = {"value": value} if isinstance(optimizer, optax.GradientTransformationExtraArgs) else {}
            updates, state = optimizer.update(grads, state, weights, **more)
            weights = optax.apply_updates(weights, updates)
        return weights

    return function


def transform(transformation):
    """One update of a gradient transformation by itself, parameters and gradients drawn."""

    def function(params, grads):
        return transformation.update(grads, transformation.init(params), params)[0]

    return function


OPTIMIZERS = [
    ("sgd",              step(optax.sgd(0.1)),                            NET, "f32 bf16 f16 f64"),
    ("momentum",         step(optax.sgd(0.1, momentum=0.9), 2),           NET, NARROW),
    ("nesterov",         step(optax.sgd(0.1, 0.9, nesterov=True), 2),     NET, "f32"),
    ("adam",             step(optax.adam(1e-3)),                          NET, "f32 bf16 f64"),
    ("adam, 3 steps",    step(optax.adam(1e-2), 3),                       NET, "f32"),
    ("adamw",            step(optax.adamw(1e-3, weight_decay=0.1)),       NET, NARROW),
    ("adamax",           step(optax.adamax(1e-3)),                        NET, "f32"),
    ("amsgrad",          step(optax.amsgrad(1e-3)),                       NET, "f32"),
    ("nadam",            step(optax.nadam(1e-3)),                         NET, "f32"),
    ("radam",            step(optax.radam(1e-3)),                         NET, "f32"),
    ("adabelief",        step(optax.adabelief(1e-3)),                     NET, "f32"),
    ("adan",             step(optax.adan(1e-3)),                          NET, "f32"),
    ("adagrad",          step(optax.adagrad(0.1)),                        NET, NARROW),
    ("adadelta",         step(optax.adadelta(0.1)),                       NET, "f32"),
    ("adafactor",        step(optax.adafactor(0.1)),                      NET, "f32"),
    ("factored adafactor", step(optax.adafactor(0.1, min_dim_size_to_factor=4)), NET, "f32"),
    ("fromage",          step(optax.fromage(0.01)),                       NET, "f32"),
    ("lamb",             step(optax.lamb(1e-2)),                          NET, "f32"),
    ("lars",             step(optax.lars(0.1)),                           NET, "f32"),
    ("lion",             step(optax.lion(1e-3)),                          NET, NARROW),
    ("novograd",         step(optax.novograd(1e-2)),                      NET, "f32"),
    ("optimistic",       step(optax.optimistic_gradient_descent(0.1), 2), NET, "f32"),
    ("rmsprop",          step(optax.rmsprop(1e-2)),                       NET, NARROW),
    ("centered rmsprop", step(optax.rmsprop(1e-2, centered=True)),        NET, "f32"),
    ("rprop",            step(optax.rprop(1e-2), 2),                      NET, "f32"),
    ("sign_sgd",         step(optax.sign_sgd(1e-2)),                      NET, "f32"),
    ("sm3",              step(optax.sm3(1e-2)),                           NET, "f32"),
    ("yogi",             step(optax.yogi(1e-2)),                          NET, "f32"),
    ("polyak_sgd",       step(optax.polyak_sgd()),                        NET, "f32"),
    ("noisy free lunch", step(optax.contrib.schedule_free_sgd(0.1)),      NET, "f32"),
    ("prodigy",          step(optax.contrib.prodigy()),                   NET, "f32"),
    ("muon",             step(optax.contrib.muon(1e-2)),                  NET, "f32"),
    ("clipped adam",     step(optax.chain(optax.clip_by_global_norm(0.1), optax.adam(1e-3))), NET, NARROW),
    ("decayed sgd",      step(optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.1))), NET, "f32"),
    ("accumulating sgd", step(optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation(), 2), NET, "f32"),
    ("lookahead free ema", step(optax.chain(optax.ema(0.9), optax.sgd(0.1)), 2), NET, "f32"),
    ("scheduled sgd",    step(optax.sgd(optax.cosine_decay_schedule(0.1, 10)), 2), NET, "f32"),
]  # fmt: skip


def ctc(x):
    return optax.ctc_loss(x, jnp.zeros((2, 9)), jnp.ones((2, 3), jnp.int32), jnp.zeros((2, 3)))


PAIR = "33x17 33x17"
TRANSFORMATIONS = [
    ("clip",                  transform(optax.clip(0.5)),                       PAIR, "f32 bf16"),
    ("clip_by_global_norm",   transform(optax.clip_by_global_norm(1.0)),        PAIR, "f32 bf16 f64"),
    ("clip_by_block_rms",     transform(optax.clip_by_block_rms(0.5)),          PAIR, "f32"),
    ("adaptive_grad_clip",    transform(optax.adaptive_grad_clip(0.1)),         PAIR, "f32"),
    ("centralize",            transform(optax.centralize()),                    PAIR, "f32"),
    ("scale_by_adam",         transform(optax.scale_by_adam()),                 PAIR, "f32 bf16"),
    ("scale_by_rms",          transform(optax.scale_by_rms()),                  PAIR, "f32 bf16"),
    ("scale_by_lion",         transform(optax.scale_by_lion()),                 PAIR, "f32"),
    ("scale_by_trust_ratio",  transform(optax.scale_by_trust_ratio()),          PAIR, "f32"),
    ("normalize_by_update_norm", transform(optax.normalize_by_update_norm()),   PAIR, "f32"),
    ("zero_nans",             lambda p, g: transform(optax.zero_nans())(p, jnp.where(g > 1, jnp.nan, g)), PAIR, "f32"),
    ("keep_params_nonnegative", lambda p, g: transform(optax.keep_params_nonnegative())(jnp.abs(p), g), PAIR, "f32"),
    ("trace",                 transform(optax.trace(0.9)),                      PAIR, "f32 bf16"),
    ("global_norm",           lambda p, g: optax.tree.norm([p, g]),             PAIR, "f32 bf16"),
    ("incremental_update",    lambda p, g: optax.incremental_update(g, p, 0.1), PAIR, "f32 bf16"),
    ("squared norm",          lambda p, g: optax.tree.norm([p, g], squared=True), PAIR, "f32"),
]  # fmt: skip

LOSSES = [
    ("softmax_cross_entropy", lambda x, y: optax.softmax_cross_entropy(x, jax.nn.softmax(y)), PAIR, "f32 bf16 f64"),
    ("integer labels",        lambda x, y: optax.softmax_cross_entropy_with_integer_labels(x, jnp.arange(33) % 17),
                              PAIR, "f32 bf16"),
    ("sigmoid_binary_cross_entropy", lambda x, y: optax.sigmoid_binary_cross_entropy(x, jax.nn.sigmoid(y)), PAIR,
                              "f32 bf16"),
    ("sigmoid_focal_loss",    lambda x, y: optax.sigmoid_focal_loss(x, (y > 0) * 1.0), PAIR, "f32"),
    ("l2_loss",               optax.l2_loss,                                    PAIR, "f32 bf16"),
    ("huber_loss",            optax.huber_loss,                                 PAIR, "f32 bf16"),
    ("log_cosh",              optax.log_cosh,                                   PAIR, "f32 bf16"),
    ("cosine_distance",       optax.cosine_distance,                            PAIR, "f32"),
    ("cosine_similarity",     optax.cosine_similarity,                          PAIR, "f32"),
    ("hinge_loss",            lambda x, y: optax.hinge_loss(x, jnp.sign(y)),    PAIR, "f32"),
    ("kl_divergence",         lambda x, y: optax.kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y)), PAIR, "f32"),
    ("convex_kl_divergence",  lambda x, y: optax.convex_kl_divergence(jax.nn.log_softmax(x), jax.nn.softmax(y)),
                              PAIR, "f32"),
    ("poly_loss",             lambda x, y: optax.losses.poly_loss_cross_entropy(x, jax.nn.softmax(y)), PAIR, "f32"),
    ("triplet_margin_loss",   lambda x, y: optax.losses.triplet_margin_loss(x, y, -x), PAIR, "f32"),
    ("ranking_softmax_loss",  lambda x, y: optax.losses.ranking_softmax_loss(x, jnp.abs(y)), PAIR, "f32"),
    ("sparsemax_loss",        lambda x, y: optax.losses.sparsemax_loss(x, (y > 0) * 1.0), PAIR, "f32"),
    ("ctc_loss",              ctc,
                              "2x9x5", "f32"),
    ("smooth_labels",         lambda x, y: optax.smooth_labels(jax.nn.softmax(x), 0.1) * y, PAIR, "f32"),
    ("make_fenchel_young_loss", lambda x, y: optax.losses.make_fenchel_young_loss(jax.nn.logsumexp)(x[0], y[0]),
                                PAIR, "f32"),
    ("grad huber_loss",       lambda x, y: jax.grad(lambda v: optax.huber_loss(v, y).sum())(x), PAIR, "f32"),
    ("grad focal",            lambda x, y: jax.grad(lambda v: optax.sigmoid_focal_loss(v, (y > 0) * 1.0).sum())(x),
                              PAIR, "f32"),
    ("grad softmax_cross_entropy", lambda x, y: jax.grad(
                                  lambda v: optax.softmax_cross_entropy(v, jax.nn.softmax(y)).sum())(x),
                                  PAIR, "f32 bf16"),
    ("projection_simplex",    lambda x: optax.projections.projection_simplex(x), "33", "f32"),
    ("projection_l1_ball",    lambda x: optax.projections.projection_l1_ball(x, 2.0), "33", "f32"),
    ("projection_l2_ball",    lambda x: optax.projections.projection_l2_ball(x, 2.0), "33", "f32"),
]  # fmt: skip


def over(schedule):
    """A schedule at drawn counts from 0 to 100."""
    return lambda count: jax.vmap(schedule)(jnp.abs(count) % 101)


COUNT = "s32:65"
SCHEDULES = [
    ("constant_schedule",      over(optax.constant_schedule(0.1)),                      COUNT, "s32"),
    ("linear_schedule",        over(optax.linear_schedule(0.1, 0.01, 50, 10)),          COUNT, "s32"),
    ("cosine_decay_schedule",  over(optax.cosine_decay_schedule(0.1, 70, 0.05)),        COUNT, "s32"),
    ("exponential_decay",      over(optax.exponential_decay(0.1, 20, 0.7)),             COUNT, "s32"),
    ("staircase",              over(optax.exponential_decay(0.1, 20, 0.7, staircase=True)), COUNT, "s32"),
    ("polynomial_schedule",    over(optax.polynomial_schedule(0.1, 0.0, 2, 60)),        COUNT, "s32"),
    ("warmup_cosine",          over(optax.warmup_cosine_decay_schedule(0.0, 0.1, 10, 80)), COUNT, "s32"),
    ("piecewise_constant",     over(optax.piecewise_constant_schedule(0.1, {20: 0.5, 60: 0.1})), COUNT, "s32"),
    ("piecewise_interpolate",  over(optax.piecewise_interpolate_schedule("cosine", 0.1, {20: 0.5, 60: 0.1})),
                               COUNT, "s32"),
    ("cosine_onecycle",        over(optax.cosine_onecycle_schedule(90, 0.1)),           COUNT, "s32"),
    ("sgdr",                   over(optax.sgdr_schedule([{"init_value": 0.0, "peak_value": 0.1, "decay_steps": 40,
                                    "warmup_steps": 10, "end_value": 0.0}] * 2)),       COUNT, "s32"),
]  # fmt: skip


def programs() -> list[Entry]:
    return [entry for table in (OPTIMIZERS, TRANSFORMATIONS, LOSSES, SCHEDULES) for entry in entries("optax", table)]
