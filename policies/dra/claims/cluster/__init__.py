"""What nobody says when a claim is created: what goes wrong with it on the devices that there are, or will be.

The API server looks at a claim alone. These rules look at it beside the DeviceClasses and ResourceSlices of the cluster,
and where these are not known beside what NVIDIA's driver publishes. What they tell rests on the moment, so they warn.
"""
