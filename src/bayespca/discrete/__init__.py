"""Binary PCA: low-rank logits of zeros and ones."""
