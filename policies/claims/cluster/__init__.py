"""Rules that compare a claim with the devices of the cluster, which the API server does not do.

The API server looks at a claim alone. These rules look at it beside the DeviceClasses and ResourceSlices of the cluster,
and where these are not known beside what NVIDIA's driver publishes. What they tell rests on the moment, so they warn.
"""
