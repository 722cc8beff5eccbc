"""What a recipe's tables and figures are made of, and how they become files. Recipes come as plain values."""
