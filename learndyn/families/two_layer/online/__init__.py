"""Online learning and gradient flow: order-parameter equations."""
