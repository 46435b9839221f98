import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X64 = True


def p87(p0, p1, p2, p3):
    v0 = lax.ceil(p0)  # f32[17,1]
    v1 = lax.ge(v0, lax.full_like(v0, np.array(0., jnp.float32)))  # pred[17,1]
    v2 = np.array(254, jnp.uint8)  # u8[]
    v3 = lax.dynamic_slice(p3, (v2,), (1,))  # s32[1]
    v4 = lax.broadcasted_iota(jnp.int32, (1,), 0)  # s32[1]
    v5 = lax.index_take(p2, (lax.clamp(np.array(0, jnp.int32), v4, np.array(9, jnp.int32)), lax.clamp(np.array(0, jnp.int32), v3, np.array(1, jnp.int32))), (0, 1))  # bf16[1,32]
    v6 = lax.acos(lax.cos(v5))  # bf16[1,32]
    v7 = lax.log1p(lax.abs(v6))  # bf16[1,32]
    v8 = lax.polynomial(lax.sin(v7), (np.array(0.5, jnp.bfloat16), np.array(1, jnp.bfloat16), np.array(2, jnp.bfloat16)))  # bf16[1,32]
    return (v1, p1, v8,)


def cases():
    yield 'p87', p87, (jax.ShapeDtypeStruct((17, 1), jnp.float32), jax.ShapeDtypeStruct((12, 9, 0, 127), jnp.int32), jax.ShapeDtypeStruct((10, 2, 32), jnp.bfloat16), jax.ShapeDtypeStruct((4,), jnp.int32))
