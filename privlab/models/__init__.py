"""The victims: stock timm models, the papers' own architectures, and surgery on both."""
