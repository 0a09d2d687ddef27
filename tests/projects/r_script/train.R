model <- lm(dist ~ speed, data = cars)
saveRDS(model, "model.rds")
