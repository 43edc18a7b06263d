"""
When does a process leave its normal state?
===========================================

Twelve sensors watch a machine, and each may look normal by itself. Is the machine still doing
what it used to do, and which sensor is to blame if not?

A model of good operation gives two numbers for each new row. Hotelling's T² grows when known
relations become extreme, Q when relations break. :mod:`bayespca.monitoring` computes both, with
limits that account for how few rows the model has learned from.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from bayespca import BayesianPCA, monitoring
from bayespca.displays import MonitoringDisplay

rng = np.random.default_rng(0)
names = [f"sensor {j + 1}" for j in range(12)]
loadings = rng.normal(size=(3, 12))


def hours(n, load=1.0):
    rows = load * rng.normal(size=(n, 3)) @ loadings + 0.5 * rng.normal(size=(n, 12))
    return pd.DataFrame(rows, columns=names)


model = BayesianPCA().fit(hours(150))
print("components of good operation:", model.n_components_)

# %%
# Sixty new hours. From hour 30 to 34 the load is far too high, but all sensors agree about it.
# From hour 45 on, sensor 4 drifts away from the others.

new = hours(60)
new.iloc[30:35] = hours(5, load=4.0)
new.loc[45:, "sensor 4"] += np.linspace(1, 5, 15)
found = monitoring.statistics(model, new, alpha=0.001)

display = MonitoringDisplay.from_statistics(found)
display.figure_.set_size_inches(9, 5)
plt.show()

# %%
# The alarms, with the sensor that contributes most to each:

for alarm in found.alarms():
    print(f"hour {alarm.row}: {alarm.statistic} = {alarm.value:.0f}, mostly {alarm.columns[0]}")
