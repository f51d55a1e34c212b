from . import attribute_inference, gradient_inversion, membership_inference, model_inversion

__all__ = ["attribute_inference", "gradient_inversion", "membership_inference", "model_inversion"]
